// What the TypeScript client programs share: which session to play, and the one document they print.
// Knows no SDK version: both clients have the same methods for what is played here.

import SESSIONS from "../clients/sessions.json" with { type: "json" };

// Kinds of steps that the newest revision no longer has.
const LEGACY_ONLY = new Set(["ping", "log-level"]);
const TIMEOUT = { timeout: 120_000 };
// A test may want other steps than those.
const STEPS = JSON.parse(process.env.CLIENT_STEPS ?? "null");

export const CAPABILITIES = { sampling: {}, elicitation: {}, roots: {} };
export const ANSWERS = {
  sampling: { role: "assistant", content: { type: "text", text: "Hello from the client." }, model: "scripted" },
  elicitation: { action: "accept", content: { name: "Ada", check: true, integer: 7 } },
  roots: { roots: [{ uri: "file:///project", name: "project" }] },
};

const seen = { steps: [], asked: {}, notifications: [], arrived: [] };
const listeners = new Set(); // what is heard by the calls that wait for their results

function hear(what, params) {
  for (const { hears, heard } of listeners) {
    if (hears.includes(what) && what !== "progress") heard.push([what, params]);
  }
}

// How often and in which order the server asks or tells is its own affair: two runs agree on what.
function add(items, item) {
  const texts = items.map((each) => JSON.stringify(each));
  if (!texts.includes(JSON.stringify(item))) items.push(item);
  items.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

export function answer(what) {
  return (request) => {
    add((seen.asked[what] ??= []), request.params ?? {});
    hear(what, request.params ?? {});
    return ANSWERS[what];
  };
}

export async function notified(notification) {
  add(seen.notifications, notification);
  hear(notification.method.replace("notifications/", ""), notification.params);
}

// SDK 1.x takes a stream that ends with an error for one that broke off, and a second later asks for the rest: of
// that, server-everything sends all that it has said meanwhile, on whichever stream.
const ONCE = { initialReconnectionDelay: 0, maxReconnectionDelay: 0, reconnectionDelayGrowFactor: 1, maxRetries: 0 };

// The transport to a command or a URL, and a promise for the stream on which the server speaks unasked: it drops
// what it would say there before that is open. A URL that ends in `/sse` is the old HTTP+SSE.
export function reach([target, ...args], { Stdio, Http, Sse }) {
  if (!target.startsWith("http")) return [new Stdio({ command: target, args }), Promise.resolve()];
  if (target.endsWith("/sse")) return [new Sse(new URL(target)), Promise.resolve()];
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  const watched = async (url, init) => {
    const response = await fetch(url, init);
    if (init?.method === "GET") open();
    return response;
  };
  return [new Http(new URL(target), { fetch: watched, reconnectionOptions: ONCE }), opened];
}

// Both SDKs hand a notification over one microtask after its message, but a response at once: progress that
// shares a read with the response finds its callback gone. So what arrives is noted here as well; and a patient
// client takes one message at a time, however they arrived, and loses none.
export function watch(transport) {
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (message.method === "notifications/progress") {
      const { progress, total } = message.params;
      seen.arrived.push([progress, total]);
      seen.arrived.sort(([a, b], [c, d]) => b - d || a - c);
    }
    if (process.env.CLIENT_PATIENT) setImmediate(deliver, message, extra);
    else deliver(message, extra);
  };
}

const ACTIONS = {
  tools: (client) => client.listTools(),
  resources: (client) => client.listResources(),
  templates: (client) => client.listResourceTemplates(),
  prompts: (client) => client.listPrompts(),
  ping: (client) => client.ping(),
  "log-level": (client, step) => client.setLoggingLevel(step.level),
  read: (client, step) => client.readResource({ uri: step.uri }),
  prompt: (client, step) => client.getPrompt({ name: step.name, arguments: step.arguments }),
  complete: (client, step) =>
    client.complete({
      ref: { type: "ref/prompt", name: step.prompt },
      argument: { name: step.argument, value: step.value },
    }),
  // Once what was asked before is on its way: reads nothing meanwhile, nor does anything else.
  busy: async () => {
    await new Promise(setImmediate);
    return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
  },
  call: (client, step, options) => client.callTool({ name: step.name, arguments: step.arguments }, options),
};

async function outcome(client, step, callTool) {
  if (step.do === "together") {
    return { do: "together", steps: await Promise.all(step.steps.map((part) => outcome(client, part, callTool))) };
  }
  const progressed = [];
  const listening = { hears: step.hears ?? [], heard: [] };
  const onprogress = (report) => {
    progressed.push(report);
    listening.heard.push(["progress", report]);
  };
  const options = step.progress ? { ...TIMEOUT, onprogress } : TIMEOUT;
  const act = step.do === "call" ? callTool : ACTIONS[step.do];
  listeners.add(listening);
  try {
    const result = await act(client, step, options);
    const heard = step.hears && [...listening.heard]; // what was reported before the result
    return { ...step, result, heard, progressed: [...progressed] };
  } catch (error) {
    if (error.code === undefined) throw error;
    return { ...step, error: { code: error.code, message: error.message, data: error.data }, progressed };
  } finally {
    listeners.delete(listening);
  }
}

export async function play(client, connected, opened, callTool = ACTIONS.call) {
  const modern = connected.protocol >= "2026";
  if (!modern) await opened;
  const offered = (await client.listTools()).tools.map((tool) => tool.name);
  seen.connected = { ...connected, server: client.getServerVersion(), capabilities: client.getServerCapabilities() };
  const steps = STEPS ?? Object.entries(SESSIONS).find(([tool]) => offered.includes(tool))[1];
  for (const step of steps) {
    if (modern && LEGACY_ONLY.has(step.do)) continue;
    seen.steps.push(await outcome(client, step, callTool));
  }
  await client.close();
  console.log(JSON.stringify(seen, null, 1));
}
