"""The texts that a model reads: where a server's messages contain them, their cost, and attempts to steer the model.

Pure: values in, values out. Knows nothing of cassettes, nor of how findings are reported.

    cost        definitions and results as models get them; bytes, and tokens by a rule of thumb
    texts       the texts of a schema that assert nothing
    pages       pages of MCP Apps: their sources, and the permissions that they ask for
    steering    texts that give a model orders, or make it carry data out
    characters  invisible characters, and names that look like others
"""
