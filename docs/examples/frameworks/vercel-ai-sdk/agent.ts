// The MCP tools of the Vercel AI SDK, called without a model.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";

const NOON = { source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" };
export const TIME = ["mcp-server-time", "--local-timezone", "UTC"];

export async function ask([command, ...args]: string[]): Promise<string> {
  const client = await createMCPClient({
    transport: new StdioTransport({ command, args }),
    protocolVersionDiscovery: false, // it waits one second only
  });
  try {
    const { convert_time } = await client.tools();
    return JSON.stringify(await convert_time.execute(NOON, { toolCallId: "1", messages: [] }));
  } finally {
    await client.close();
  }
}
