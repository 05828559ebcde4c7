// The TypeScript SDK 2.x as a client in `auto` mode, which starts the command twice: node ts2.mjs COMMAND...

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { CAPABILITIES, answer, notified, play, watch } from "./session.mjs";

const [command, ...args] = process.argv.slice(2);
const client = new Client(
  { name: "ts2", version: "1.0" },
  { capabilities: CAPABILITIES, versionNegotiation: { mode: "auto" } },
);
client.setRequestHandler("sampling/createMessage", answer("sampling"));
client.setRequestHandler("elicitation/create", answer("elicitation"));
client.setRequestHandler("roots/list", answer("roots"));
client.fallbackNotificationHandler = notified;

const transport = new StdioClientTransport({ command, args });
await client.connect(transport);
watch(transport);
await play(client, { protocol: client.getNegotiatedProtocolVersion() });
