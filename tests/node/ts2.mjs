// The TypeScript SDK 2.x as a client in `auto` mode, which starts a command twice: node ts2.mjs COMMAND... | URL

import {
  Client,
  LOG_LEVEL_META_KEY,
  SSEClientTransport,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { CAPABILITIES, answer, notified, play, reach, watch } from "./session.mjs";

const client = new Client(
  { name: "ts2", version: "1.0" },
  { capabilities: CAPABILITIES, versionNegotiation: { mode: "auto" } },
);
client.setRequestHandler("sampling/createMessage", answer("sampling"));
client.setRequestHandler("elicitation/create", answer("elicitation"));
client.setRequestHandler("roots/list", answer("roots"));
client.fallbackNotificationHandler = notified;

const [transport, opened] = reach(process.argv.slice(2), {
  Stdio: StdioClientTransport,
  Http: StreamableHTTPClientTransport,
  Sse: SSEClientTransport,
});
await client.connect(transport);
watch(transport);
const protocol = client.getNegotiatedProtocolVersion();
// In the newest revision only those hear log messages who ask for them.
const more = protocol >= "2026" ? { _meta: { [LOG_LEVEL_META_KEY]: "info" } } : {};
await play(client, { protocol }, opened, (_, step, options) =>
  client.callTool({ name: step.name, arguments: step.arguments, ...more }, options),
);
