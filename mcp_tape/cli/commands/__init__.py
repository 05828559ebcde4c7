"""One module for each command of `mcp-tape --help`."""
