// Calls as rows, what needs attention, and the facts about a recording in one line.

import { duration, el, harmless, plural } from "./text.mjs";
import { NONE } from "./store.mjs";

// The calls that a filter keeps by their own messages, in the order of time, and every other row that it keeps on its own.
// `kept`: by row. Without a filter, quiet rows that follow each other outside of calls are one: `folded`, by the first.
export function callRows(store, rows, kept, filtered) {
  const { call, root, mate } = store.columns;
  const own = new Uint8Array(store.count);
  for (const row of rows) {
    if (!kept[row] || call[row] === NONE) continue;
    const request = store.word("kind", row) === "response" ? mate[row] : row;
    if (request !== NONE && root[request] === call[row] && store.word("kind", request) === "request") own[call[row]] = 1;
  }
  const [found, folded] = [new Int32Array(rows.length), new Map()];
  let count = 0;
  let run = null;
  let calls = 0;
  for (const row of rows) {
    const mine = call[row] !== NONE && own[call[row]];
    if (mine ? row !== call[row] : !kept[row]) continue;
    if (mine) calls++;
    if (mine || filtered || store.odd(row)) {
      run = null;
      found[count++] = row;
    } else if (run) run.push(row);
    else folded.set((found[count++] = row), (run = [row]));
  }
  for (const [row, all] of folded) if (all.length < 2) folded.delete(row);
  return { rows: found.slice(0, count), folded, calls };
}

// What several rows are, counted: "stderr 3, notifications/message 2".
export function kinds(store, rows) {
  const counts = new Map();
  for (const row of rows) {
    const what = harmless(store.what(row));
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  return [...counts].map(([what, count]) => (count > 1 ? `${what} ${count.toLocaleString("en")}` : what)).slice(0, 8).join(", ");
}

// The calls of rows: how many, the failed and unanswered ones, the slowest, and the first that needs attention.
export function summary(store, rows) {
  const { mate, call, client, took } = store.columns;
  const found = { calls: 0, failed: 0, unanswered: 0, slowest: NONE, attention: NONE };
  let loose = NONE;
  for (const row of rows) {
    if (store.word("kind", row) !== "request") {
      if (loose === NONE && mate[row] === NONE && store.odd(row)) loose = row;
      continue;
    }
    if (call[row] === row) found.calls++;
    const unanswered = store.odd(row), failed = mate[row] !== NONE && store.odd(mate[row]);
    if (unanswered) found.unanswered++;
    if (failed) found.failed++;
    // What hangs first, then what failed.
    if (unanswered && (found.attention === NONE || !store.odd(found.attention))) found.attention = row;
    else if (failed && found.attention === NONE) found.attention = row;
    if (client[row] && took[row] > (found.slowest === NONE ? -1 : took[found.slowest])) found.slowest = row;
  }
  if (found.attention === NONE) found.attention = loose;
  return found;
}

// One line about the sessions that are shown; each fact leads to its rows.
export function factsOf(store, { sessions, found, lasted, go }) {
  const link = (text, title, changes, kind = "") => el("button", { type: "button", class: `fact ${kind}`, title, onclick: () => go(changes) }, text);
  const several = (values) => [...new Set(values.filter(Boolean))];
  const one = (values, thing) => {
    const all = several(values);
    return all.length === 1 ? harmless(all[0]).slice(0, 60) : all.length ? plural(all.length, thing) : "";
  };
  const named = (session, side) => [session[`${side}_name`], session[`${side}_version`]].filter(Boolean).join(" ");
  const facts = [
    [one(sessions.map((session) => named(session, "server") || session.server), "server"), "the server, and what it offers", { tab: "surface" }],
    [one(sessions.map((session) => named(session, "client")), "client"), "the client: its greeting", { tab: "messages", rows: "messages", q: "method:initialize", range: "" }],
    [one(sessions.map((session) => session.protocol_version), "revision"), "the revision of the protocol: where it is agreed", { tab: "messages", rows: "messages", q: "method:initialize kind:response", range: "" }],
    [one(sessions.map((session) => session.transport), "transport"), "the transport, and the sessions", { tab: "sessions" }],
    [duration(lasted), "the whole time", { tab: "messages", range: "", q: "" }],
    [plural(found.calls, "call"), "all calls", { tab: "messages", rows: "", q: "", range: "" }],
    [found.failed ? plural(found.failed, "failure") : "", "the calls that failed", { tab: "messages", rows: "", q: "status:error", range: "" }, "wrong"],
    [found.unanswered ? `${found.unanswered.toLocaleString("en")} unanswered` : "", "the calls without an answer", { tab: "messages", rows: "", q: "status:unanswered", range: "" }, "wrong"],
    [found.slowest === NONE ? "" : `slowest ${duration(store.columns.took[found.slowest])}`, found.slowest === NONE ? "" : harmless(store.what(found.slowest)), { tab: "messages", q: "", range: "", row: found.slowest }],
  ];
  return facts.filter(([text]) => text).map((fact) => link(...fact));
}
