// The MCP tools of Mastra, called without a model.
import { MCPClient } from "@mastra/mcp";

const NOON = { source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" };
export const TIME = ["mcp-server-time", "--local-timezone", "UTC"];

export async function ask([command, ...args]: string[]): Promise<string> {
  const client = new MCPClient({ servers: { time: { command, args } } });
  try {
    const tools = await client.listTools();
    return JSON.stringify(await tools.time_convert_time.execute(NOON, {}));
  } finally {
    await client.disconnect();
  }
}
