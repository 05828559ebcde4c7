// Details of a row: its call with request and response side by side, the messages in between, and ways to copy it.

import { byId, bytes, duration, el, harmless, pre, visible } from "./text.mjs";
import { contents } from "./content.mjs";
import { MOST_PLACES, isTree, placesOf, reveal, tree, unfold } from "./tree.mjs";
import { decoded } from "./packed.mjs";
import { NONE } from "./store.mjs";
import { waysToCopy } from "./copying.mjs";
import { findingsOf } from "./findings.mjs";

const MOST_BETWEEN = 200;
const SMALL = 300; // characters; too short to need a search
const LARGE = 2_000_000; // characters; a longer text is not parsed whole

export class Details {
  constructor(store, choose, compare) {
    Object.assign(this, { store, choose, compare, view: "content", asked: 0 });
    this.box = byId("details");
  }

  async show(row) {
    const asked = ++this.asked;
    this.row = row;
    this.box.hidden = row === null;
    if (row === null) return void (this.is = this.drawn = null);
    const { store } = this;
    const pair = this.call(row);
    const between = this.between(pair);
    const found = pair.flatMap((one) => store.found?.get(one) ?? []);
    const is = [row, ...pair, store.status(pair[0]), between.length, store.work(store.columns.root[pair[0]]).length, found.length].join();
    if (is === this.is) return void (this.age.textContent = this.took(pair[0]));
    const other = this.compare.other(pair[0]);
    const others = other === null ? [] : this.call(other);
    const texts = await Promise.all([...pair, ...others].map((one) => store.text(one)));
    if (asked !== this.asked) return; // another row was chosen meanwhile
    this.texts = new Map([...pair, ...others].map((one, i) => [one, texts[i]]));
    this.box.replaceChildren(this.head(pair), ...pair.flatMap((one) => findingsOf(store, one)), ...(others.length ? this.compared(pair, others) : [this.sides(pair)]), ...this.rounds(pair), ...this.listOf(between, pair));
    if (this.drawn !== row) this.box.scrollTop = 0;
    [this.is, this.drawn] = [is, row];
  }

  // A row and its counterpart, in the order of time.
  call(row) {
    const mate = this.store.columns.mate[row];
    return (mate === NONE ? [row] : [row, mate]).sort((a, b) => a - b);
  }

  sides(rows, names = []) {
    return el("div", { class: "sides" }, ...rows.map((one, i) => this.side(one, this.texts.get(one), names[i])));
  }

  // A call of the old recording beside that of the new one, below the changes.
  compared(pair, others) {
    const [old, after] = [pair, others].sort(([a], [b]) => a - b);
    const length = Math.max(old.length, after.length);
    const rows = Array.from({ length }, (_, i) => [old[i], after[i]]).flat();
    const names = rows.map((_, i) => (i % 2 ? "new" : "old"));
    const there = rows.map((row, i) => [row, names[i]]).filter(([row]) => row !== undefined);
    return [...this.compare.changes(pair[0]), this.sides(there.map(([row]) => row), there.map(([, name]) => name))];
  }

  head(pair) {
    const { store } = this;
    const [first] = pair;
    const status = store.status(first);
    const close = el("button", { type: "button", class: "close", "aria-label": "Close details", onclick: () => this.choose(null) }, "×");
    return el(
      "div", { class: "title" },
      el("h2", {}, harmless(store.what(first)), " ", status ? el("span", { class: `badge ${status}` }, status) : null),
      (this.age = el("span", { class: "facts" }, this.took(first))),
      this.copies(pair), close,
    );
  }

  // How long a call took; of one that waits, or was never answered, its age.
  took(row) {
    const { store } = this;
    const { took, mate } = store.columns;
    const age = store.word("kind", row) === "request" && mate[row] === NONE && !store.ends.has(row);
    return age ? `> ${duration(store.duration(row))}` : duration(took[row]);
  }

  copies(pair) {
    const { store, row, texts } = this;
    const { file, number } = store.origin(store.columns.session[row]);
    const facts = {
      file, session: number, seq: store.columns.seq[row], what: harmless(store.what(pair[0])), status: store.status(pair[0]) ?? "",
      took: duration(store.columns.took[pair[0]]), target: store.sessions.get(store.columns.session[row])?.target,
      version: store.sessions.get(store.columns.session[row])?.protocol_version,
      method: store.word("kind", pair[0]) === "request" ? store.word("method", pair[0]) : null,
      sentByClient: store.columns.client[pair[0]] === 1, chosen: texts.get(row), pair: pair.map((one) => texts.get(one)),
    };
    const ways = waysToCopy(facts);
    const choice = el("select", { "aria-label": "Copy as", class: "copy", onchange: () => (this.copy(ways[choice.value]()), (choice.value = "")) }, el("option", { value: "" }, "copy as …"));
    for (const name of Object.keys(ways)) choice.append(el("option", { value: name }, name));
    return choice;
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
      const done = document.execCommand("copy"); // a page in a file has no clipboard permission
      area.remove();
      this.say(done ? "copied" : "the browser does not let this page copy");
    }
  }

  say(text) {
    byId("live").textContent = text;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (byId("live").textContent = ""), 2_000);
  }

  side(row, text, name = "") {
    const { store } = this;
    const { at, size, client } = store.columns;
    const kind = store.word("kind", row) ?? store.word("frame", row);
    const from = client[row] ? "client → server" : "server → client";
    const facts = `${from} · ${(at[row] / 1e6).toFixed(6)} s · ${bytes(size[row])} · ${harmless(store.word("channel", row))}`;
    const body = el("div", { class: "body" });
    const views = this.views(row, text, kind);
    const buttons = el("div", { class: "views", role: "group", "aria-label": "Shown as" });
    let current = null;
    const show = (name) => {
      current = name;
      body.replaceChildren(...views[name]());
      for (const button of buttons.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", button.dataset.view === name);
    };
    const find = text.length < SMALL ? null : this.finder(text, (name) => (name === current && name === "tree" ? body : (show(name), body)));
    for (const name of Object.keys(views)) {
      buttons.append(el("button", { type: "button", "data-view": name, onclick: () => (show(name), (this.view = name)) }, name));
    }
    show(this.view in views ? this.view : Object.keys(views)[0]);
    return el("article", { class: store.odd(row) ? "odd" : "" }, el("div", { class: "side-head" }, el("h3", {}, name ? `${name} ${kind}` : kind), buttons), el("p", { class: "facts" }, facts), find, body);
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
    const fold = (all) => el("button", { type: "button", onclick: () => unfold(shown, all) }, all ? "unfold" : "fold");
    return [el("div", { class: "tools" }, fold(true), fold(false)), shown];
  }

  // A box that searches a whole text, shown or not, and leads from one place to the next.
  finder(text, show) {
    const found = el("span", { class: "facts", role: "status" });
    let [pattern, places, at] = [null, [], -1];
    const go = (step) => {
      if (!places.length) return;
      at = (at + step + places.length) % places.length;
      found.textContent = `${(at + 1).toLocaleString("en")} of ${places.length < MOST_PLACES ? "" : "at least "}${places.length.toLocaleString("en")}`;
      const body = show(Array.isArray(places[at]) ? "tree" : "text");
      if (Array.isArray(places[at])) return reveal(body.querySelector(".tree"), places[at], pattern);
      body.replaceChildren(excerpt(text, places[at], pattern));
      body.querySelector(".hit").scrollIntoView({ block: "nearest" });
    };
    const look = () => {
      const wanted = search.value.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
      pattern = new RegExp(wanted, "iu");
      places = wanted && isTree(text) ? placesOf(text, pattern) : [];
      // What is no member, as in text that only looks like JSON, or across members.
      if (wanted && !places.length) for (const one of text.matchAll(new RegExp(wanted, "giu"))) if (places.push(one.index) >= MOST_PLACES) break;
      at = -1;
      found.textContent = wanted ? "not in this message" : "";
      go(1);
    };
    const search = el("input", { type: "search", placeholder: "find in this", "aria-label": "Find in this message", oninput: look, onkeydown: (event) => event.key === "Enter" && go(event.shiftKey ? -1 : 1) });
    const step = (by, name, shown) => el("button", { type: "button", "aria-label": name, title: name, onclick: () => go(by) }, shown);
    return el("div", { class: "tools" }, search, found, step(-1, "Previous place", "↑"), step(1, "Next place", "↓"));
  }

  line(row) {
    const line = el("span", { class: "facts" });
    Promise.resolve(this.store.line(row)).then((text) => (line.textContent = text));
    return line;
  }

  // The requests of the same call: its rounds, and polls of its task.
  rounds([first]) {
    const { store } = this;
    const { mate, root } = store.columns;
    const work = store.work(root[first]);
    if (work.length < 2) return [];
    const ends = work.map((row) => (mate[row] === NONE ? row : mate[row]));
    const took = store.columns.at[Math.max(...ends)] - store.columns.at[work[0]];
    const items = work.slice(0, MOST_BETWEEN).map((row) => this.item(row, row === first ? "true" : null));
    return [el("h3", {}, `One of ${work.length.toLocaleString("en")} requests `, el("span", { class: "facts" }, `that took ${duration(took)} together`)), el("ul", { class: "between rounds" }, ...items)];
  }

  // Progress, nested requests and stderr, from the first to the last row of the call; after a request without an answer,
  // the next ones.
  between([first, last]) {
    const { store } = this;
    const { session, caller, mate } = store.columns;
    const root = caller[first] === NONE ? first : caller[first];
    const found = [];
    const isRequest = store.word("kind", first) === "request";
    const end = last ?? Math.min(store.count, first + 2_000) - 1;
    for (let row = first + 1; row <= end && found.length < MOST_BETWEEN; row++) {
      if (row === last || session[row] !== session[first]) continue;
      if (store.is("plumbing", row)) continue;
      const stderr = isRequest && ["stderr", "noise"].includes(store.word("frame", row));
      if (stderr || (caller[row] === root && mate[row] !== first)) found.push(row);
    }
    return found;
  }

  listOf(between, [, last]) {
    if (!between.length) return [];
    return [el("h3", {}, last === undefined ? "Since then" : "In between"), el("ul", { class: "between" }, ...between.map((row) => this.item(row)))];
  }

  item(row, current = null) {
    const { store } = this;
    const { seq, client } = store.columns;
    const said = store.word("kind", row) === "notification" ? "" : (store.status(row) ?? "");
    const words = `${seq[row]} ${client[row] ? "→" : "←"} ${harmless(store.what(row))} ${said}`;
    return el("li", {}, el("button", { type: "button", class: store.odd(row) ? "odd" : "", "aria-current": current, onclick: () => this.choose(row) }, words), " ", this.line(row));
  }
}

// What surrounds a place in a text, and what is there.
function excerpt(text, at, pattern) {
  const [found] = pattern.exec(text.slice(at));
  const [from, end] = [Math.max(0, at - 1_000), at + found.length];
  return el("pre", { dir: "ltr" }, from ? "… " : "", visible(text.slice(from, at)), el("span", { class: "hit" }, visible(found)), visible(text.slice(end, end + 5_000)), end + 5_000 < text.length ? " …" : "");
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// Sixteen bytes a line, as in hexdump.
function dump(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 1 << 16); at += 16) {
    const part = [...data.slice(at, at + 16)];
    const hex = part.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${part.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("")}`);
  }
  return lines.join("\n");
}
