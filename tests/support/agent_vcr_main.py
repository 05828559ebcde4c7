"""The recorder of agent-vcr 0.1 between a client and a server: PYTHON agent_vcr_main.py FILE COMMAND...

Its own command waits for four kilobytes before it forwards any, so a client that waits for an answer never gets one.
This program forwards the client's bytes through a pipe as they arrive, like its `--demo`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from agent_vcr.recorder import MCPRecorder


async def main(output: str, command: str, *args: str) -> None:
    read, write = os.pipe()
    recorder = MCPRecorder(transport="stdio", server_command=command, server_args=list(args), client_stdin_fd=read)
    loop = asyncio.get_running_loop()

    def forward() -> None:
        while data := os.read(0, 4096):
            os.write(write, data)
        loop.call_soon_threadsafe(recorder.request_stop)

    threading.Thread(target=forward, daemon=True).start()
    await recorder.record(output)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
