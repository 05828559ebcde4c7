"""Checks: the differences between two versions of a server, each under its rule.

Owns the definition of a difference. Knows neither a project's levels nor its ignores, and reads no files.

    declarations       protocol versions, capabilities, extensions, instructions, the version number
    tools              tools: their schemas, hints and texts
    resources_prompts  resources, resource templates and prompts
    app_pages          pages of MCP Apps, and the visibility of tools
    skills             skills: their frontmatter, and their files by digest
    model_texts        texts for a model: new text that tries to steer it, definitions that grew
    evidence           raises the level of differences that the recorded calls depend on
    recorded_calls     pairs of calls from two recordings, and the messages around them
    answers            the two answers of a pair: success, kind, content
    server_requests    a server's requests to its client: sampling, elicitation, roots
    json_values        two JSON values: shapes, then leaves
    output_schema      results against the output schema of their tool
"""
