// Logs in with the TypeScript SDK 2.x: node login-ts2.mjs URL [TOOL]...

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { play } from "./login.mjs";

const [url, ...tools] = process.argv.slice(2);
await play(url, tools, { Client, Transport: StreamableHTTPClientTransport, Unauthorized: UnauthorizedError });
