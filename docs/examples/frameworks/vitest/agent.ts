// A client of the TypeScript SDK, and no model: it knows what to ask.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const NOON = { source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" };
export const TIME = ["mcp-server-time", "--local-timezone", "UTC"];

export async function ask([command, ...args]: string[]): Promise<string> {
  const client = new Client({ name: "planner", version: "1.0" });
  await client.connect(new StdioClientTransport({ command, args }));
  try {
    const result = await client.callTool({ name: "convert_time", arguments: NOON });
    return JSON.stringify(result.content);
  } finally {
    await client.close();
  }
}
