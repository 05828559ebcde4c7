"""Checks: the differences between two versions of a server, each under its rule.

Owns the definition of a difference. Knows neither a project's levels nor its ignores, and reads no files.

    declarations       protocol versions, capabilities, extensions, instructions, the version number
    tools              tools: their schemas, hints and texts
    resources_prompts  resources, resource templates and prompts
    app_pages          pages of MCP Apps, and who sees a tool
    skills             skills: their frontmatter, and their files by digest
    model_texts        texts for a model: new text that tries to steer it, definitions that grew
    evidence           how the recorded calls bear on a difference of the surface
    recorded_calls     pairs of calls from two recordings, and the messages around them
    answers            the two answers of a pair: success, kind, content
    server_requests    the requests that a server makes to its client: sampling, elicitation, roots
    json_values        two JSON values: shapes, then leaves
    output_schema      results against the output schema of their tool
"""
