// Logs in with the TypeScript SDK 1.x: node login-ts1.mjs URL [TOOL]...

import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { play } from "./login.mjs";

const [url, ...tools] = process.argv.slice(2);
await play(url, tools, { Client, Transport: StreamableHTTPClientTransport, Unauthorized: UnauthorizedError });
