// Details of a row: its call with request and response side by side, what came in between, and what can be copied.

import { byId, bytes, duration, el, harmless, plural, pre } from "./text.mjs";
import { contents } from "./content.mjs";
import { isTree, tree, unfold } from "./tree.mjs";
import { decoded } from "./store.mjs";

const MOST_BETWEEN = 200;
const SMALL = 300; // characters that nobody needs to search
const LARGE = 2_000_000; // characters that are not parsed as a whole

export class Details {
  constructor(store, choose) {
    Object.assign(this, { store, choose, view: "content", asked: 0 });
    this.box = byId("details");
  }

  async show(row) {
    const asked = ++this.asked;
    this.row = row;
    this.box.hidden = row === null;
    if (row === null) return;
    const { store } = this;
    const mate = store.mates[row];
    const pair = (mate === null ? [row] : [row, mate]).sort((a, b) => a - b);
    const texts = await Promise.all(pair.map((one) => store.text(one)));
    if (asked !== this.asked) return; // another was chosen meanwhile
    this.texts = new Map(pair.map((one, i) => [one, texts[i]]));
    const sides = pair.map((one, i) => this.side(one, texts[i]));
    this.box.replaceChildren(this.head(pair), el("div", { class: "sides" }, ...sides), ...this.between(pair));
    this.box.scrollTop = 0;
  }

  head(pair) {
    const { store } = this;
    const [first] = pair;
    const status = store.status(first);
    const close = el("button", { type: "button", class: "close", "aria-label": "Close details", onclick: () => this.choose(null) }, "×");
    return el(
      "div", { class: "title" },
      el("h2", {}, harmless(store.what(first)), " ", status ? el("span", { class: `badge ${status}` }, status) : null),
      el("span", { class: "facts" }, duration(store.columns.took[first])),
      this.copies(pair), close,
    );
  }

  copies(pair) {
    const ways = this.ways(pair);
    const choice = el("select", { "aria-label": "Copy as", class: "copy", onchange: () => (this.copy(ways[choice.value]()), (choice.value = "")) }, el("option", { value: "" }, "copy as …"));
    for (const name of Object.keys(ways)) choice.append(el("option", { value: name }, name));
    return choice;
  }

  // Each gives the text that is copied.
  ways(pair) {
    const { store } = this;
    const { session, seq } = store.columns;
    const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const chosen = this.texts.get(this.row);
    const command = `mcp-tape show ${quoted(store.file)} --session ${session[this.row]} ${seq[this.row]}`;
    const fenced = (text) => {
      const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((found) => found[0].length + 1)));
      return `${fence}json\n${text}\n${fence}`;
    };
    const ways = {
      message: () => chosen,
      command: () => command,
      Markdown: () => [`**${harmless(store.what(pair[0]))}** ${store.status(pair[0]) ?? ""} ${duration(store.columns.took[pair[0]])}`, ...pair.map((one) => fenced(this.texts.get(one))), ""].join("\n\n"),
    };
    if (store.word("kind", pair[0]) === "request") {
      ways.curl = () => `curl -sS "$MCP_URL" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' --data-binary ${quoted(this.texts.get(pair[0]))}`;
    }
    return ways;
  }

  copyMessage() {
    if (this.row !== null && this.texts?.has(this.row)) this.copy(this.texts.get(this.row));
  }

  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      this.say("copied");
    } catch {
      const area = el("textarea", {}, text);
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy"); // where the page has no permission, as from a file
      area.remove();
      this.say(done ? "copied" : "the browser does not let this page copy");
    }
  }

  say(text) {
    byId("live").textContent = text;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (byId("live").textContent = ""), 2_000);
  }

  side(row, text) {
    const { store } = this;
    const { at, size, client } = store.columns;
    const kind = store.word("kind", row) ?? store.word("frame", row);
    const from = client[row] ? "client → server" : "server → client";
    const facts = `${from} · ${(at[row] / 1e6).toFixed(6)} s · ${bytes(size[row])} · ${harmless(store.word("channel", row))}`;
    const body = el("div", { class: "body" });
    const views = this.views(row, text, kind);
    const buttons = el("div", { class: "views", role: "group", "aria-label": "Shown as" });
    const show = (name) => {
      body.replaceChildren(...views[name]());
      for (const button of buttons.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", button.dataset.view === name);
    };
    for (const name of Object.keys(views)) {
      buttons.append(el("button", { type: "button", "data-view": name, onclick: () => (show(name), (this.view = name)) }, name));
    }
    show(this.view in views ? this.view : Object.keys(views)[0]);
    return el("article", { class: store.odd(row) ? "odd" : "" }, el("div", { class: "side-head" }, el("h3", {}, kind), buttons), el("p", { class: "facts" }, facts), body);
  }

  views(row, text, kind) {
    const { store } = this;
    const views = {};
    if (isTree(text)) {
      const shown = text.length <= LARGE && store.word("kind", row) ? contents(parsed(text), text) : [];
      if (shown.length) views.content = () => shown;
      views.tree = () => this.foldable(text);
    }
    views.text = () => [pre(text)];
    if (store.is("bytes", row)) {
      const box = el("div", {});
      views.bytes = () => (store.stored(row).then((data) => box.replaceChildren(pre(dump(decoded(data))))), [box]);
    }
    return views;
  }

  foldable(text) {
    const shown = tree(text, 3);
    if (text.length < SMALL) return [shown];
    const found = el("span", { class: "facts", role: "status" });
    const search = el("input", { type: "search", placeholder: "find in this", "aria-label": "Find in this message", oninput: () => (found.textContent = this.find(shown, text, search.value)) });
    const fold = (all) => el("button", { type: "button", onclick: () => unfold(shown, all) }, all ? "unfold" : "fold");
    return [el("div", { class: "tools" }, search, found, fold(true), fold(false)), shown];
  }

  find(shown, text, wanted) {
    for (const one of shown.querySelectorAll(".hit")) one.classList.remove("hit");
    if (!wanted) return "";
    const pattern = wanted.toLowerCase();
    if (!text.toLowerCase().includes(pattern)) return "nothing";
    unfold(shown, true);
    const hits = [...shown.querySelectorAll(".leaf, summary > .name")].filter((one) => one.textContent.toLowerCase().includes(pattern));
    for (const one of hits) one.classList.add("hit");
    hits[0]?.scrollIntoView({ block: "nearest" });
    return plural(hits.length, "hit");
  }

  line(row) {
    const line = el("span", { class: "facts" });
    Promise.resolve(this.store.line(row)).then((text) => (line.textContent = text));
    return line;
  }

  // Progress, nested requests and stderr, from the first to the last row of the call.
  between([first, last]) {
    const { store } = this;
    const { session, seq } = store.columns;
    const root = store.exchange(first) ?? seq[first];
    const found = [];
    const end = last ?? Math.min(store.count, first + 2_000) - 1;
    for (let row = first + 1; row <= end && found.length < MOST_BETWEEN && session[row] === session[first]; row++) {
      if (row === last) continue;
      const stderr = last !== undefined && ["stderr", "noise"].includes(store.word("frame", row));
      if (stderr || (store.exchange(row) === root && store.mates[row] !== first)) found.push(row);
    }
    if (!found.length) return [];
    const items = found.map((row) =>
      el("li", {}, el("button", { type: "button", class: store.odd(row) ? "odd" : "", onclick: () => this.choose(row) },
        `${seq[row]} ${store.columns.client[row] ? "→" : "←"} ${harmless(store.what(row))} ${store.word("kind", row) === "response" ? (store.status(row) ?? "") : ""}`), " ", this.line(row)));
    return [el("h3", {}, "In between"), el("ul", { class: "between" }, ...items)];
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// Sixteen bytes a line, as hexdump has them.
function dump(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 1 << 16); at += 16) {
    const part = [...data.slice(at, at + 16)];
    const hex = part.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${part.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("")}`);
  }
  return lines.join("\n");
}
