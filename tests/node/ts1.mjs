// The TypeScript SDK 1.x as a client: node ts1.mjs COMMAND...

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { CAPABILITIES, answer, notified, play, watch } from "./session.mjs";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "ts1", version: "1.0" }, { capabilities: CAPABILITIES });
client.setRequestHandler(CreateMessageRequestSchema, answer("sampling"));
client.setRequestHandler(ElicitRequestSchema, answer("elicitation"));
client.setRequestHandler(ListRootsRequestSchema, answer("roots"));
client.fallbackNotificationHandler = notified;

const transport = new StdioClientTransport({ command, args });
// The client keeps the negotiated version to itself and tells only its transport.
let protocol;
transport.setProtocolVersion = (version) => (protocol = version);
await client.connect(transport);
watch(transport);
await play(client, { protocol }, (_, step, options) =>
  client.callTool({ name: step.name, arguments: step.arguments }, undefined, options),
);
