"""MCP, JSON-RPC and JSON as values: no I/O, no SQL, no clock."""
