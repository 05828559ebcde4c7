"""Checks: the differences between two versions of a server, each under its rule.

Owns what counts as a difference. Knows neither levels of a project nor what it ignores, and reads no files.

    server              protocol versions, capabilities, extensions, instructions, the version number
    tools               tools: their schemas, hints and texts
    resources_prompts   resources, resource templates and prompts
    skills              skills: their frontmatter, and their files by digest
    wording             what a model reads: new text that tries to steer it, definitions that grew
    evidence            what the recorded calls say about a difference of the surface
    calls               the calls of two recordings, in pairs, and what came beside them
    answers             the two answers of a pair: success, kind, content
    server_requests     the requests that a server makes of its client: sampling, elicitation, roots
    json_values         two JSON values: shapes, then leaves
    output_schema       results against the output schema of their tool
"""
