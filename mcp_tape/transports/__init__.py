"""Moving bytes: pipes, sockets, processes, signals and event loops.

Performs the actions that lower rooms return as values. Decides nothing about MCP: lower rooms match, record and store
messages. Three roles: `relay` sits in the middle and records, `serve` is the server, `connect` is the client; `live` is
a server beside a replay.

    process               start a server that ends with us; process groups
    task_processes        Python processes that run tasks for this one
    exec_server           replace this process by a server that is not recorded
    programs              start a server beside other work; run a client program to its end
    signals               stop serving, or clean up, at a signal
    stdio/                pipes, with threads and blocking reads
    http/                 Streamable HTTP and HTTP+SSE, with asyncio
    workers/              several processes that act as one server
    headers               the HTTP headers that repeat a message
    memory                the streams of SDK clients within this process
    local                 decks of this process for other processes: a Unix socket, or HTTP in a thread
    runs                  related connections, and the number of each
    environment_handover  secrets that a recorder does not inherit
"""
