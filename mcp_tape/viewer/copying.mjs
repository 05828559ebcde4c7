// A message or its call as text for other places: a terminal, a test, an issue.

import { isTree, member } from "./tree.mjs";

const LONGEST_TEXT = 500; // characters of a text that a test compares
const shellWord = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// Each returns the text to copy. `facts`: about the message and its call.
export function waysToCopy(facts) {
  const ways = { message: () => facts.chosen };
  if (facts.method !== null && facts.sentByClient) ways.curl = () => curl(facts);
  ways["mcp-tape show"] = () => `mcp-tape show ${shellWord(facts.file)} --session ${facts.session} ${facts.seq}`;
  if (Object.hasOwn(CALLS, facts.method ?? "") && facts.sentByClient) ways["pytest test"] = () => pytest(facts);
  ways.Markdown = () => markdownOf(facts);
  return ways;
}

function curl({ pair, target, version }) {
  const url = member(target ?? "", "url");
  const headers = ["content-type: application/json", "accept: application/json, text/event-stream", ...(version ? [`mcp-protocol-version: ${version}`] : [])];
  return `curl -sS ${url ? shellWord(JSON.parse(url)) : '"$MCP_URL"'} ${headers.map((one) => `-H ${shellWord(one)}`).join(" ")} --data-binary ${shellWord(pair[0])}`;
}

// How the official SDK's client makes a request: its method, and the parameters that it takes.
const CALLS = { "tools/call": ["call_tool", "name", "arguments"], "prompts/get": ["get_prompt", "name", "arguments"], "resources/read": ["read_resource", "uri"] };

function pytest({ method, pair, file, session, what, status }) {
  const [name, ...wanted] = CALLS[method];
  const given = wanted.map((one) => member(pair[0], "params", one)).filter((one) => one !== null).map(python);
  const title = what.replace(/\W+/g, "_").replace(/^_+|_+$/g, "").slice(0, 60);
  const failed = status === "error";
  return [
    "import asyncio", "", "import mcp_tape", ...(failed ? ["import pytest"] : []), `from mcp import Client${failed ? ", MCPError" : ""}`, "", "",
    `def test_${title}() -> None:`,
    "    async def ask():",
    `        with mcp_tape.use_cassette(${python(JSON.stringify(file))}, mode="none", session="${session}") as tape:`,
    "            async with Client(tape.streams()) as client:",
    `                return await client.${name}(${given.join(", ")})`, "",
    ...(failed ? ["    with pytest.raises(MCPError):", "        asyncio.run(ask())"] : ["    answer = asyncio.run(ask())", ...expected(method, pair[1], status)]), "",
  ].join("\n");
}

// The assertions of the test about the answer.
function expected(method, answer, status) {
  if (method !== "tools/call") return ["    assert answer"];
  const content = isTree(answer ?? "") ? JSON.parse(answer).result?.content?.[0] : null;
  const text = typeof content?.text === "string" && content.text.length < LONGEST_TEXT ? [`    assert answer.content[0].text == ${python(JSON.stringify(content.text))}`] : [];
  return [`    assert answer.is_error is ${status === "tool-error" ? "True" : "False"}`, ...text];
}

// JSON as Python source: numbers keep their values.
const WORDS = { true: "True", false: "False", null: "None" };
export function python(text) {
  return text.replace(/"(?:[^"\\]|\\[^])*"|true|false|null|\s*\n\s*/g, (found) => {
    if (found[0] === '"') return JSON.stringify(JSON.parse(found)).replace(/\u007f/g, "\\u007f");
    return WORDS[found] ?? " ";
  });
}

function markdownOf({ what, status, took, file, session, seq, pair }) {
  const fenced = (text) => {
    const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((found) => found[0].length + 1)));
    return `${fence}json\n${text}\n${fence}`;
  };
  return [`**${what}** ${status} ${took}`.trim(), ...pair.map(fenced), `\`mcp-tape show ${shellWord(file)} --session ${session} ${seq}\``, ""].join("\n\n");
}
