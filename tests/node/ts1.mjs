// The TypeScript SDK 1.x as a client: node ts1.mjs COMMAND... | URL

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { CAPABILITIES, answer, notified, play, reach, watch } from "./session.mjs";

const client = new Client({ name: "ts1", version: "1.0" }, { capabilities: CAPABILITIES });
client.setRequestHandler(CreateMessageRequestSchema, answer("sampling"));
client.setRequestHandler(ElicitRequestSchema, answer("elicitation"));
client.setRequestHandler(ListRootsRequestSchema, answer("roots"));
client.fallbackNotificationHandler = notified;

const [transport, opened] = reach(process.argv.slice(2), {
  Stdio: StdioClientTransport,
  Http: StreamableHTTPClientTransport,
  Sse: SSEClientTransport,
});
// The client keeps the negotiated version to itself and tells only its transport.
let protocol;
const told = transport.setProtocolVersion;
transport.setProtocolVersion = (version) => {
  protocol = version;
  told?.call(transport, version);
};
await client.connect(transport);
watch(transport);
await play(client, { protocol }, opened, (_, step, options) =>
  client.callTool({ name: step.name, arguments: step.arguments }, undefined, options),
);
