// Tools, surface and sessions.

import { bytes, duration, el, harmless, plural, visible } from "./text.mjs";
import { NONE } from "./store.mjs";
import { members, string, tree, isTree } from "./tree.mjs";

const rank = (sorted, percent) => (sorted.length ? sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] : null);
const size = (text) => new TextEncoder().encode(text).length;

const orders = new Map(); // by the table's name, as somebody chose it

// A table that sorts on a click on a head. Columns: [title, value, shown].
function table(name, caption, columns, rows, order, chosen) {
  let [by, down] = orders.get(name) ?? order;
  const box = el("div", { class: "table" });
  const draw = () => {
    const value = columns[by][1];
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = [value(a) ?? -1, value(b) ?? -1];
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    const heads = columns.map(([title], i) =>
      el("th", { scope: "col", class: rows.some((row) => typeof columns[i][1](row) === "number") && title !== "latency" ? "number" : null, "aria-sort": i === by ? (down ? "descending" : "ascending") : null },
        el("button", { type: "button", onclick: () => (orders.set(name, ([by, down] = [i, i === by ? !down : true])), draw()) }, title, i === by ? (down ? " ↓" : " ↑") : "")));
    const lines = sorted.map((row) => el("tr", { tabindex: 0, class: row.bad ? "odd" : "", onclick: () => chosen(row), onkeydown: (event) => event.key === "Enter" && chosen(row) },
      ...columns.map(([, get, show], i) => {
        const shown = show ? show(row) : (get(row) ?? "");
        return el(i ? "td" : "th", { scope: i ? null : "row", class: typeof get(row) === "number" && !(shown instanceof Element) ? "number" : "" }, typeof shown === "number" ? shown.toLocaleString("en") : shown);
      })));
    box.replaceChildren(el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines)));
  };
  draw();
  return box;
}

export async function tools(store, rows, choose) {
  const groups = new Map();
  const { columns } = store;
  for (const row of rows) {
    if (store.word("kind", row) !== "request" || store.status(row) === "retry") continue;
    const key = `${columns.client[row]} ${columns.method[row]} ${columns.name[row]}`;
    if (!groups.has(key)) groups.set(key, { row, client: columns.client[row], what: harmless(store.what(row)), calls: 0, errors: 0, unanswered: 0, took: [], asked: 0, answered: 0 });
    const group = groups.get(key);
    const mate = columns.mate[row];
    group.calls++;
    group.asked += columns.size[row];
    if (mate === NONE) group.unanswered += store.status(row) === "unanswered" ? 1 : 0;
    else {
      group.answered += columns.size[mate];
      group.errors += store.odd(mate) ? 1 : 0;
      if (columns.took[row] >= 0) group.took.push(columns.took[row]);
    }
  }
  if (!groups.size) return el("p", { class: "empty" }, rows.length ? "No request is among the messages that are shown." : "There are no messages to show.");
  const definitions = new Map();
  for (const { name, item } of (await surface(store, rows)).items) definitions.set(name, size(item));
  for (const group of groups.values()) {
    group.took.sort((a, b) => a - b);
    group.bad = group.errors + group.unanswered > 0;
    group.defined = definitions.get(store.word("name", group.row)) ?? null;
  }
  const answered = [...groups.values()].filter((group) => group.took.length);
  const scale = [Math.min(...answered.map((group) => group.took[0])), Math.max(...answered.map((group) => group.took.at(-1)))].map((one) => Math.log(one + 1));
  const got = (name) => (group) => group[name];
  const amount = (name) => ["defined", "asked", "answered"].includes(name) && ((group) => (group[name] === null ? "" : bytes(group[name])));
  const took = (percent) => [(group) => rank(group.took, percent), (group) => duration(rank(group.took, percent))];
  return table("tools", `${groups.size.toLocaleString("en")} tools and methods of what is shown`, [
    ["what", (group) => group.what, (group) => el("span", {}, group.client ? "→ " : "← ", group.what)],
    ["calls", got("calls")], ["errors", got("errors"), (group) => group.errors || "–"], ["open", got("unanswered"), (group) => group.unanswered || "–"],
    ["p50", ...took(50)], ["p95", ...took(95)], ["max", ...took(100)],
    ["definition", got("defined"), amount("defined")], ["requests", got("asked"), amount("asked")], ["results", got("answered"), amount("answered")],
    ["latency", (group) => rank(group.took, 50), (group) => plot(group.took, scale)],
  ], [...groups.values()], [1, true], choose);
}

// A histogram of durations, on a logarithmic scale that all plots share.
const SVG = "http://www.w3.org/2000/svg";
const BINS = 24;
function plot(took, [low, high]) {
  const bins = new Array(BINS).fill(0);
  for (const one of took) bins[Math.floor(((Math.log(one + 1) - low) / (high - low || 1)) * (BINS - 1))]++;
  const most = Math.max(1, ...bins);
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: `0 0 ${BINS * 4} 20`, width: BINS * 4, height: 20, role: "img", "aria-label": took.length ? `from ${duration(took[0])} to ${duration(took.at(-1))}` : "no answers" })) svg.setAttribute(key, value);
  bins.forEach((number, i) => {
    if (!number) return;
    const bar = document.createElementNS(SVG, "rect");
    const height = Math.max(2, (number / most) * 20);
    for (const [key, value] of Object.entries({ x: i * 4, y: 20 - height, width: 3, height })) bar.setAttribute(key, value);
    svg.append(bar);
  });
  return svg;
}

// The server's offer, from the newest answers to list requests, and the greeting.
async function surface(store, rows) {
  const lists = new Map();
  let greeting = null;
  for (const row of rows) {
    if (store.word("kind", row) !== "response" || store.status(row) !== "ok" || store.columns.client[row]) continue;
    const method = store.word("method", row) ?? "";
    if (/^(?:initialize|server\/discover)$/.test(method)) greeting = row;
    if (!/\/list$/.test(method)) continue;
    if (!lists.has(method)) lists.set(method, []);
    lists.get(method).push(row);
  }
  const items = new Map();
  for (const [method, found] of lists) {
    for (const row of found.slice(-50)) {
      const text = await store.text(row);
      for (const [name, start] of isTree(text) ? members(text, text.search(/\S/)) : []) {
        if (string(name) !== "result" || text[start] !== "{") continue;
        for (const [, at] of members(text, start)) {
          if (text[at] !== "[") continue;
          for (const [, first, end] of members(text, at)) {
            const item = text.slice(first, end);
            const fields = text[first] === "{" ? Object.fromEntries([...members(item, 0)].map(([key, from, to]) => [string(key), item.slice(from, to)])) : {};
            const key = string(fields.name ?? fields.uri ?? fields.uriTemplate ?? '""');
            if (text[first] === "{") items.set(`${method} ${key}`, { method, name: String(key), item, about: String(string(fields.description ?? fields.title ?? '""')) });
          }
        }
      }
    }
  }
  return { greeting, items: [...items.values()] };
}

export async function surfaceOf(store, rows) {
  const { greeting, items } = await surface(store, rows);
  const found = [];
  if (greeting !== null) {
    const text = await store.text(greeting);
    found.push(el("h2", {}, "Server"), tree(text, 3));
  }
  for (const method of new Set(items.map((one) => one.method))) {
    const mine = items.filter((one) => one.method === method);
    const total = mine.reduce((sum, one) => sum + size(one.item), 0);
    found.push(el("h2", {}, harmless(method), " ", el("span", { class: "facts" }, `${mine.length.toLocaleString("en")} · ${bytes(total)}`)));
    for (const { name, item, about } of mine.slice(0, 500)) {
      const body = el("div", {});
      const fold = el("details", { class: "offer", ontoggle: () => fold.open && !body.childElementCount && body.append(tree(item, 4)) },
        el("summary", {}, el("strong", {}, harmless(name)), " ", el("span", { class: "facts" }, bytes(size(item))), el("p", {}, visible(about.slice(0, 400)))), body);
      found.push(fold);
    }
  }
  return found.length ? el("div", { class: "surface" }, ...found) : el("p", { class: "empty" }, "The server was not asked what it offers.");
}

export function sessions(store, choose) {
  const counts = new Map();
  for (let row = 0; row < store.count; row++) {
    const count = counts.get(store.columns.session[row]) ?? { messages: 0, odd: 0, until: 0 };
    counts.set(store.columns.session[row], count);
    if (store.columns.kind[row] !== NONE) count.messages++;
    if (store.odd(row)) count.odd++;
    count.until = store.columns.at[row];
  }
  const all = [...store.sessions.values()].map((session) => ({ ...session, ...(counts.get(session.id) ?? { messages: 0, odd: 0, until: 0 }), bad: (counts.get(session.id)?.odd ?? 0) > 0 }));
  const named = (...words) => harmless(words.filter(Boolean).join(" "));
  return table("sessions", plural(all.length, "session"), [
    ["session", (one) => one.id, (one) => `${one.id}${one.label ? ` ${harmless(one.label)}` : ""}`],
    ...(store.files.length > 1 ? [["file", (one) => one.file, (one) => harmless(`${one.file} #${one.number}`)]] : []),
    ["started", (one) => one.started_at, (one) => harmless(one.started_at)],
    ["server", (one) => one.server, (one) => harmless(one.server)],
    ["client", (one) => named(one.client_name, one.client_version)],
    ["transport", (one) => named(one.transport, one.protocol_version)],
    ["messages", (one) => one.messages], ["odd", (one) => one.odd], ["lasted", (one) => one.until, (one) => duration(one.until)],
    ["ended", (one) => (one.open ? "goes on" : harmless(one.incomplete ?? (one.exit_code === null ? "" : `exit ${one.exit_code}`)))],
  ], all, [0, false], (one) => choose(one.id));
}
