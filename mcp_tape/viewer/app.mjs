// The page: its state, which the URL fragment holds, its keys, and updates of its parts.

import { byId, el, harmless, plural } from "./text.mjs";
import { Store } from "./store.mjs";
import { FIELDS, FilterError, KINDS, STATUSES, parse, rowsByColumns, rowsByTexts } from "./filters.mjs";
import { List } from "./list.mjs";
import { Details } from "./details.mjs";
import { Waterfall } from "./waterfall.mjs";
import { Live } from "./live.mjs";
import { merged, offsetsOf } from "./spans.mjs";
import { byRow, findings } from "./findings.mjs";
import { Compare, chooser } from "./compare.mjs";
import { sessions, surfaceOf, tools } from "./tables.mjs";

const TABS = { messages: "Messages", tools: "Tools", surface: "Surface", sessions: "Sessions", findings: "Findings", compare: "Compare" };
const KEYS = {
  "j k ↓ ↑": "next and previous message", "n p": "next and previous that needs a look", "g G": "first and last",
  "/": "filter", c: "copy the message", f: "follow: stay at the end", "1 … 6": "views", Esc: "close, clear the range", "?": "this help",
};
const FILTERS = {
  "method:tools/* tool:search": "method; tool, prompt or resource; * is any",
  "status:error": Object.keys(STATUSES).join(", "),
  "dur:>50 dur:1s.. size:1k..2M": "how long it took, in ms; how many bytes it has",
  "from:server kind:response": `who sent it; ${KINDS.join(", ")}`,
  "id:7 session:2": "the id of the call; the session",
  'Bern "no such"': "the text itself, in any case",
  "-method:ping": "a - leaves out what fits",
};

export class App {
  constructor() {
    this.store = new Store();
    this.state = { session: "", q: "", tab: "messages", at: "", range: "", all: "" };
    this.follow = false;
    this.turn = 0;
  }

  async open() {
    const { store } = this;
    const whole = await store.open();
    this.live = whole ? null : new Live(store, () => this.grown(), (text) => (byId("live").textContent = text));
    if (this.live) await this.live.first();
    store.found = byRow(store);
    this.compare = new Compare(store, (row) => this.set({ tab: "messages", session: "all", at: this.placeOf(row), q: "", range: "" }));
    this.list = new List(store, (row) => this.choose(row));
    this.details = new Details(store, (row) => this.choose(row), this.compare);
    this.waterfall = new Waterfall(store, (range) => this.set({ range: range ? range.map(Math.round).join("-") : "" }), (row) => this.choose(row));
    byId("file").textContent = harmless(store.file);
    byId("file").title = harmless([store.file, store.by, store.filtered ? "only what a filter kept" : ""].filter(Boolean).join(", "));
    document.title = `${harmless(store.file)} – mcp-tape`;
    this.furnish();
    this.read();
    await this.refresh();
    addEventListener("hashchange", () => (this.read(), this.refresh()));
    document.documentElement.dataset.ready = "yes";
    this.live?.goOn(() => this.list.rows);
    await this.find();
  }

  async grown() {
    const ended = [...this.store.sessions.values()].filter((one) => !one.open).length;
    this.listSessions();
    await this.refresh();
    if (ended !== this.ended || this.state.tab === "findings") await this.find();
    this.ended = ended;
  }

  // Load the findings of a served recording, after the first read and whenever a session has ended.
  async find() {
    if (!this.live || this.finding) return;
    this.finding = true;
    const answer = await fetch("findings").catch(() => null);
    this.finding = false;
    if (!answer?.ok) return;
    this.store.findings = await answer.json();
    this.store.found = byRow(this.store);
    await this.refresh();
  }

  furnish() {
    const { store } = this;
    byId("tabs").append(...Object.entries(TABS).map(([key, title]) => el("button", { type: "button", role: "tab", id: `tab-${key}`, onclick: () => this.set({ tab: key }) }, title)));
    this.listSessions();
    byId("session").addEventListener("change", (event) => this.set({ session: event.target.value, range: "", at: "" }));
    byId("all").addEventListener("change", (event) => this.set({ all: event.target.checked ? "1" : "" }));
    byId("all").closest("label").hidden = !store.columns.flags?.some((_, row) => store.is("plumbing", row));
    const box = byId("filter");
    box.addEventListener("input", () => {
      this.complete(box.value);
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.set({ q: box.value }), 60);
    });
    byId("help-button").addEventListener("click", () => this.help());
    document.addEventListener("keydown", (event) => this.key(event));
  }

  listSessions() {
    const { store } = this;
    const named = (one) => harmless([one.id, ...(store.files.length > 1 ? [one.file] : []), one.label ?? one.server].join(" · ")).slice(0, 60);
    const options = [...store.sessions.values()].slice(-1_000).map((one) => el("option", { value: one.id }, named(one)));
    byId("session").replaceChildren(...(store.sessions.size > 1 ? [el("option", { value: "all" }, "all sessions")] : []), ...options);
    byId("session").hidden = store.sessions.size < 2;
    byId("tab-compare").hidden = store.sessions.size < 2 && !store.compared;
  }

  // -- the state

  read() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of Object.keys(this.state)) this.state[name] = given.get(name) ?? "";
    if (!Object.hasOwn(TABS, this.state.tab)) this.state.tab = this.first();
    if (byId("filter").value !== this.state.q) byId("filter").value = this.state.q;
  }

  write() {
    const given = new URLSearchParams(Object.entries(this.state).filter(([name, value]) => value && !(name === "tab" && value === this.first())));
    history.replaceState(null, "", `#${given}`);
  }

  // The view to show first.
  first() {
    return this.store.compared ? "compare" : "messages";
  }

  async set(changes) {
    if (changes.tab && changes.tab !== this.state.tab) history.pushState(null, "", location.href); // keeps the old view in the history
    Object.assign(this.state, changes);
    this.write();
    if (byId("filter").value !== this.state.q) byId("filter").value = this.state.q;
    await this.refresh();
  }

  placeOf(row) {
    const { session, seq, part } = this.store.columns;
    return row === null ? "" : `${session[row]}.${seq[row]}${part[row] ? `.${part[row]}` : ""}`;
  }

  choose(row) {
    this.state.at = this.placeOf(row);
    this.write();
    this.select();
  }

  chosen() {
    const [session, seq, part = 0] = this.state.at.split(".").map(Number);
    const first = this.store.places.get(`${session}.${seq}`);
    if (first === undefined) return null;
    for (let row = first; this.store.columns.seq[row] === seq; row++) if ((this.store.columns.part[row] ?? 0) === part) return row;
    return first;
  }

  select() {
    const row = this.chosen();
    const opens = row !== null && byId("details").hidden;
    this.details.show(row);
    if (opens) this.list.draw();
    this.list.select(row);
    this.waterfall.mark(this.kept, this.range(), row);
  }

  range() {
    const found = /^(\d+)-(\d+)$/.exec(this.state.range);
    return found ? [Number(found[1]), Number(found[2])] : null;
  }

  // The selected session: the newest by default, or "all".
  session() {
    if (this.state.session === "all") return "all";
    if (!this.state.session && (this.store.compared || this.store.files.length > 1)) return "all";
    const number = Number(this.state.session);
    return this.store.sessions.has(number) ? number : ([...this.store.sessions.keys()].at(-1) ?? "all");
  }

  // -- what is shown

  async refresh() {
    const turn = ++this.turn;
    const terms = this.terms();
    const session = /(?:^|\s)-?session:/i.test(this.state.q) ? "all" : this.session();
    byId("session").value = String(session);
    byId("all").checked = this.state.all !== "";
    const { base, every, offsets, cuts } = this.scope(session);
    const key = `${session} ${this.store.count}`;
    if (key !== this.drawn) this.waterfall.set(every, offsets, cuts);
    this.drawn = key;
    if (terms === null) return this.select();
    const range = this.range();
    const inRange = range ? base.filter((row) => this.within(row, range)) : base;
    const slow = setTimeout(() => (byId("count").textContent = "searching …"), 100);
    const kept = await rowsByTexts(this.store, terms, rowsByColumns(this.store, terms, inRange), () => turn === this.turn, (share) => {
      if (byId("count").textContent.startsWith("searching")) byId("count").textContent = `searching … ${Math.floor(share * 100)} %`;
    });
    clearTimeout(slow);
    if (kept === null || turn !== this.turn) return;
    this.kept = new Uint8Array(this.store.count);
    for (const row of kept) this.kept[row] = 1;
    byId("count").textContent = kept.length === base.length ? plural(kept.length, "message") : `${kept.length.toLocaleString("en")} of ${base.length.toLocaleString("en")}`;
    this.chips(range);
    const [from, to] = range ?? [this.waterfall.from, this.waterfall.to];
    this.list.show(kept, offsets.size > 1, { timeOf: (row) => this.waterfall.timeOf(row), from, to });
    this.select();
    if (this.follow) this.end();
    await this.tab(kept);
  }

  // The rows of a session, or of all, merged by time; `base`: without the HTTP events around messages.
  scope(session) {
    const { store } = this;
    const key = `${session} ${this.state.all} ${store.count}`;
    if (this.scoped?.key !== key) this.scoped = { key, ...this.scopeOf(session) };
    return this.scoped;
  }

  scopeOf(session) {
    const { store } = this;
    const [found, lasted] = [new Map(), new Map()];
    for (let row = 0; row < store.count; row++) {
      const mine = store.columns.session[row];
      if (session !== "all" && mine !== session) continue;
      if (!found.has(mine)) found.set(mine, []);
      found.get(mine).push(row);
      lasted.set(mine, Math.max(lasted.get(mine) ?? 0, store.columns.at[row]));
    }
    const { offsets, cuts } = offsetsOf([...store.sessions.values()], lasted);
    const every = merged(found, offsets, store.columns.at);
    return { base: this.state.all ? every : every.filter((row) => !store.is("plumbing", row)), every, offsets, cuts };
  }

  // A call is within a range if any part of it is.
  within(row, [from, to]) {
    const mate = this.store.mates[row];
    const times = [row, mate ?? row].map((one) => this.waterfall.timeOf(one)).sort((a, b) => a - b);
    return times[0] <= to && times[1] >= from;
  }

  terms() {
    const problem = byId("problem");
    try {
      const found = parse(this.state.q);
      problem.hidden = true;
      byId("filter").removeAttribute("aria-invalid");
      return found;
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      const at = [...this.state.q.slice(0, error.position)].length;
      problem.textContent = `${error.message} (character ${at + 1})`;
      problem.dataset.position = at;
      problem.dataset.message = error.message;
      problem.hidden = false;
      byId("filter").setAttribute("aria-invalid", "true");
      return null;
    }
  }

  chips(range) {
    const box = byId("chips");
    box.hidden = !range;
    box.replaceChildren();
    if (range) box.append(el("button", { type: "button", onclick: () => this.set({ range: "" }) }, `${(range[0] / 1e6).toFixed(3)} – ${(range[1] / 1e6).toFixed(3)} s ×`));
  }

  async tab(kept) {
    const { tab } = this.state;
    for (const button of byId("tabs").children) button.setAttribute("aria-selected", button.id === `tab-${tab}`);
    byId(`tab-${tab}`).scrollIntoView({ block: "nearest", inline: "nearest" });
    byId("messages").hidden = tab !== "messages";
    const other = byId("other");
    const compares = tab === "compare" && this.store.compared !== undefined;
    byId("compare").hidden = !compares;
    other.hidden = tab === "messages" || compares;
    other.setAttribute("aria-labelledby", `tab-${tab}`);
    const number = this.store.findings.length;
    byId("tab-findings").textContent = number ? `Findings ${number.toLocaleString("en")}` : "Findings";
    if (tab === "messages") return this.list.draw();
    if (compares) return undefined;
    const [turn, session] = [this.turn, this.session()];
    const filterFor = (group) => `method:${word(this.store.word("method", group.row))}${this.store.word("name", group.row) === null ? "" : ` tool:${word(this.store.word("name", group.row))}`}`;
    const shown = tab === "tools" ? await tools(this.store, kept, (group) => this.set({ tab: "messages", q: filterFor(group) }))
      : tab === "surface" ? await surfaceOf(this.store, this.scope(session).base)
      : tab === "findings" ? findings(this.store, (row, one) => this.isShown(row, one), (row) => this.set({ tab: "messages", session: String(this.store.columns.session[row]), at: this.placeOf(row), q: "", range: "" }), session === "all" ? "all sessions" : "this session")
      : tab === "compare" ? chooser(this.store, this.live !== null)
      : sessions(this.store, (id) => this.set({ tab: "messages", session: String(id), at: "", range: "" }));
    if (turn === this.turn) other.replaceChildren(shown);
  }

  // Whether a finding concerns the rows on the page.
  isShown(row, one) {
    if (row >= 0) return this.kept[row] === 1;
    return this.session() === "all" || this.session() === one.session;
  }

  complete(text) {
    const { store } = this;
    const [, before, field, value] = /^(.*?)(?:-?([a-z]+):)?(\S*)$/is.exec(text) ?? [];
    const names = (column) => [...new Set(store.columns[column] ?? [])].filter((one) => one !== null).map((one) => store.words[one]).slice(0, 500).map(word);
    const known = { method: () => names("method"), tool: () => names("name"), status: () => Object.keys(STATUSES), kind: () => KINDS, from: () => ["client", "server"] };
    const head = text.slice(0, text.length - (value?.length ?? 0));
    const options = field ? (known[field.toLowerCase()]?.() ?? []) : Object.keys(FIELDS).filter(Boolean).map((one) => `${one}:`);
    const fitting = options.filter((one) => one.startsWith(value ?? "") && one !== value).slice(0, 30);
    byId("words").replaceChildren(...fitting.map((one) => el("option", { value: `${head}${one}` })));
  }

  end() {
    byId("list").scrollTop = byId("list").scrollHeight;
  }

  // -- keys

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(?:INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (event.key === "Escape") {
      if (typing) return event.target.blur();
      if (this.state.at) return this.choose(null);
      return this.state.range ? void this.set({ range: "" }) : undefined;
    }
    if (typing || byId("help").open || (event.key.startsWith("Arrow") && event.target.closest("aside"))) return;
    const page = Math.max(1, Math.floor(byId("list").clientHeight / 24) - 1);
    const go = (row) => row !== undefined && this.choose(row);
    const acts = {
      j: () => go(this.list.near(1)), k: () => go(this.list.near(-1)), ArrowDown: () => go(this.list.near(1)), ArrowUp: () => go(this.list.near(-1)),
      PageDown: () => go(this.list.near(page)), PageUp: () => go(this.list.near(-page)),
      n: () => go(this.list.odd(1)), p: () => go(this.list.odd(-1)), g: () => go(this.list.rows[0]), G: () => go(this.list.rows.at(-1)),
      c: () => this.details.copyMessage(), f: () => this.toggleFollow(), "/": () => byId("filter").focus(), "?": () => this.help(),
    };
    const tab = Object.keys(TABS)[Number(event.key) - 1];
    if (tab && !byId(`tab-${tab}`).hidden) acts[event.key] = () => this.set({ tab });
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  }

  toggleFollow() {
    this.follow = !this.follow;
    this.details.say(this.follow ? "following" : "not following");
    if (this.follow) this.end();
  }

  help() {
    const terms = (all) => el("dl", {}, ...Object.entries(all).flatMap(([key, what]) => [el("dt", {}, el("code", {}, key)), el("dd", {}, what)]));
    const close = el("button", { type: "button", class: "close", "aria-label": "Close help", onclick: () => byId("help").close() }, "×");
    byId("help").replaceChildren(close, el("h2", {}, "Keys"), terms(KEYS), el("h2", {}, "Filters"), terms(FILTERS), el("p", { class: "facts" }, "Drag across the waterfall to keep a range of time; double-click to keep all."));
    byId("help").showModal();
  }
}

// A word for a filter, quoted if necessary.
function word(text) {
  return /^[^\s"*\\][^\s]*$/.test(text) && !text.includes("*") ? text : `"${text.replace(/["\\]/g, "\\$&")}"`;
}

export function start() {
  new App().open();
}
