// The page: its state, which the URL fragment holds, its keys, and updates of its parts.

import { byId, duration, el, harmless, plural } from "./text.mjs";
import { NONE, Store } from "./store.mjs";
import { FIELDS, FilterError, KINDS, STATUSES, parse, rowsByColumns, rowsByTexts } from "./filters.mjs";
import { callRows, factsOf, summary } from "./calls.mjs";
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
  "j k ↓ ↑": "next and previous row", "→ ←": "unfold and fold a call", "n p": "next and previous that needs attention", "g G": "first and last",
  m: "calls, or all messages", "/": "filter", c: "copy the message", f: "follow: stay at the end",
  "+ - 0": "zoom in and out, all of the time", "h l": "earlier and later", r: "ruler: mark the selected row, then another", "1 … 6": "views", Esc: "close, clear the marks and the range", "?": "this help",
};
const FILTERS = {
  "method:tools/* tool:search": "method; tool, prompt or resource; * is any",
  "status:error": Object.keys(STATUSES).join(", "),
  "dur:>50 dur:1s.. size:1k..2M": "how long it took, in ms; how many bytes it has",
  "from:server kind:response": `the side that sent it; ${KINDS.join(", ")}`,
  "id:7 session:2": "the id of the call; the session",
  'Bern "no such"': "the text itself, in any case",
  "-method:ping": "a - leaves out what fits",
};

const MOST_GROUPS = 8; // servers with lanes of their own
const SETTLED = 150; // milliseconds after the last zoom

export class App {
  constructor() {
    this.store = new Store();
    this.state = { session: "", q: "", tab: "messages", at: "", range: "", all: "", rows: "", marks: "" };
    this.follow = false;
    this.turn = 0;
    this.loading = true;
  }

  async open() {
    const { store } = this;
    this.untouched = location.hash.length < 2;
    const whole = await store.load();
    this.live = whole ? null : new Live(store, { grown: (done) => this.grown(done), aged: () => this.aged(), say: (text) => (byId("live").textContent = text) });
    if (this.live) await this.live.take();
    this.loading = this.live?.more ?? false;
    store.found = byRow(store);
    this.compare = new Compare(store, (row) => this.set({ tab: "messages", session: "all", at: this.placeOf(row), q: "", range: "" }));
    this.list = new List(store, { chosen: (row) => this.choose(row), hovered: (row) => this.waterfall.point(row), empty: () => this.empty() });
    this.details = new Details(store, (row) => this.choose(row), this.compare);
    this.waterfall = new Waterfall(store, {
      ranged: (range) => this.ranged(range), chosen: (row) => this.choose(row), hovered: (row) => this.list.point(row),
      measured: (marks) => this.set({ marks: marks.map(Math.round).join("-") }),
    });
    this.furnish();
    this.read();
    await this.refresh();
    if (!this.live) await this.attend();
    addEventListener("hashchange", () => (this.read(), this.refresh()));
    document.documentElement.dataset.ready = "yes";
    this.live?.goOn(() => this.list.rows);
  }

  // Open what needs attention, unless a link or a person has chosen something.
  async attend() {
    if (!this.untouched || this.store.compared) return;
    this.untouched = false;
    const { attention } = this.scope(this.session()).found;
    if (attention !== NONE) this.choose(attention);
  }

  // More rows have arrived; `done`: all so far.
  async grown(done) {
    this.loading = !done;
    this.listSessions();
    await this.refresh(true);
    if (!done) return;
    await this.attend();
    const ended = [...this.store.sessions.values()].filter((one) => !one.open).length;
    if (ended !== this.ended || this.state.tab === "findings") await this.find();
    this.ended = ended;
  }

  // Calls that wait are older now.
  async aged() {
    if (this.store.age(Date.now() * 1e3)) await this.refresh(true);
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
    await this.refresh(true);
  }

  furnish() {
    byId("tabs").append(...Object.entries(TABS).map(([key, title]) => el("button", { type: "button", role: "tab", id: `tab-${key}`, onclick: () => this.set({ tab: key }) }, title)));
    this.listSessions();
    byId("session").addEventListener("change", (event) => this.set({ session: event.target.value, range: "", at: "" }));
    byId("all").addEventListener("change", (event) => this.set({ all: event.target.checked ? "1" : "" }));
    for (const [id, rows] of [["as-calls", ""], ["as-messages", "messages"]]) byId(id).addEventListener("click", () => this.set({ rows }));
    for (const [id, act] of [["zoom-in", () => this.waterfall.zoom(0.5)], ["zoom-out", () => this.waterfall.zoom(2)], ["zoom-all", () => this.waterfall.window(0, Infinity)]]) byId(id).addEventListener("click", act);
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
    byId("file").textContent = harmless(store.file);
    byId("file").title = harmless([store.file, store.by, store.filtered ? "only what a filter kept" : ""].filter(Boolean).join(", "));
    document.title = `${harmless(store.file)} – mcp-tape`;
    const key = JSON.stringify([...store.sessions.values()]);
    if (key === this.listed) return;
    this.listed = key;
    const named = (one) => harmless([one.id, ...(store.files.length > 1 ? [one.file] : []), one.label ?? one.server].join(" · ")).slice(0, 60);
    const options = [...store.sessions.values()].slice(-1_000).map((one) => el("option", { value: one.id }, named(one)));
    byId("session").replaceChildren(...(store.sessions.size > 1 ? [el("option", { value: "all" }, "all sessions")] : []), ...options);
    byId("session").hidden = store.sessions.size < 2;
    byId("tab-compare").hidden = !this.compares();
  }

  // -- the state

  read() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of Object.keys(this.state)) this.state[name] = given.get(name) ?? "";
    const { tab } = this.state;
    const known = Object.hasOwn(TABS, tab) && (tab !== "compare" || this.loading || this.compares());
    this.nowhere = tab && !known ? `There is no view ${JSON.stringify(harmless(tab))} here.` : "";
    if (!known) this.state.tab = this.first();
    if (byId("filter").value !== this.state.q) byId("filter").value = this.state.q;
  }

  write() {
    const given = new URLSearchParams(Object.entries(this.state).filter(([name, value]) => value && !(name === "tab" && value === this.first())));
    history.replaceState(null, "", `#${given}`);
  }

  // Whether this page compares, or its server can. A page in a file has none.
  compares() {
    return this.store.compared !== undefined || (this.live !== null && this.store.sessions.size > 1);
  }

  // The view to show first.
  first() {
    return this.store.compared ? "compare" : "messages";
  }

  async set(changes) {
    this.untouched = false;
    if (changes.tab && changes.tab !== this.state.tab) history.pushState(null, "", location.href); // keeps the old view in the history
    Object.assign(this.state, changes);
    this.write();
    if (byId("filter").value !== this.state.q) byId("filter").value = this.state.q;
    await this.refresh();
  }

  placeOf(row) {
    const { session, seq, part } = this.store.columns;
    return row === null ? "" : `${session[row]}.${seq[row]}${part[row] > 0 ? `.${part[row]}` : ""}`;
  }

  choose(row) {
    this.untouched = false;
    this.state.at = this.placeOf(row);
    this.write();
    this.select();
  }

  chosen() {
    const [session, seq, part = 0] = this.state.at.split(".").map(Number);
    const first = this.store.rowOf(session, seq);
    if (!this.state.at || first === NONE) return null;
    for (let row = first; this.store.columns.seq[row] === seq; row++) if (Math.max(0, this.store.columns.part[row]) === part) return row;
    return first;
  }

  select(quietly = false) {
    const row = this.chosen();
    const opens = row !== null && byId("details").hidden;
    this.details.show(row);
    if (opens) this.list.draw();
    this.list.select(row, quietly);
    this.waterfall.mark(this.matches ?? null, this.range(), row, this.marks());
    this.notice(row);
  }

  // Report what a link looks for and does not find, or what is hidden.
  notice(row) {
    const { at, session, q, range } = this.state;
    const [box, said] = [byId("notice"), this.nowhere ? [this.nowhere] : []];
    const number = at.split(".");
    if (!this.loading && session && session !== "all" && !this.store.sessions.has(Number(session))) said.push(`This link looks for session ${harmless(session)}, which is not in ${harmless(this.store.file)}.`);
    else if (at && row === null && !this.loading) said.push(`This link looks for message ${harmless(number.slice(1).join("."))} of session ${harmless(number[0])}, which is not in ${harmless(this.store.file)}${this.store.filtered ? ": a filter left out some messages" : ""}.`);
    else if (row !== null && this.kept && !this.kept[row] && this.state.tab === "messages" && (q || range)) said.push(`The selected message ${number.slice(1).join(".")} is not in the list: ${q ? "the filter" : "the range of time"} leaves it out.`);
    box.hidden = !said.length;
    if (!said.length) return;
    const clear = row === null ? () => ((this.nowhere = ""), this.set({ at: "", session: "" })) : () => this.set({ q: "", range: "" });
    box.replaceChildren(el("span", {}, said.join(" ")), el("button", { type: "button", onclick: clear }, row === null ? "dismiss" : "show it"));
  }

  // What a list without rows says, and what to do about it.
  empty() {
    const { store, state } = this;
    const button = (text, changes) => el("button", { type: "button", onclick: () => this.set(changes) }, text);
    if (this.loading) return [el("p", {}, "Reading …")];
    if (state.q || state.range) {
      const where = state.range ? " in this range of time" : "";
      return [el("p", {}, state.q ? `Nothing matches ${harmless(state.q).slice(0, 200)}${where}.` : `Nothing happened${where}.`), state.q ? button("clear the filter", { q: "" }) : "", state.range ? button("show all of the time", { range: "" }) : ""];
    }
    if (this.scope(this.session()).every.length) return [el("p", {}, "There are only HTTP events here, and they are hidden."), button("show them", { all: "1" })];
    const what = store.sessions.size ? "No messages were recorded in this session." : "No session was recorded.";
    return [el("p", {}, store.filtered ? "The filter of this export kept no messages." : what), this.live ? el("p", {}, "They appear here as they arrive.") : ""];
  }

  marks() {
    return this.state.marks.split("-").filter((one) => /^\d+$/.test(one)).map(Number).slice(0, 2);
  }

  // The window of the waterfall has changed: the list follows when it has settled.
  ranged(range) {
    this.untouched = false;
    this.state.range = range ? range.map(Math.round).join("-") : "";
    this.chips(range);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.set({}), SETTLED);
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

  // `quietly`: the recording has changed, not the state: what is on the screen stays there.
  async refresh(quietly = false) {
    const turn = ++this.turn;
    const terms = this.terms();
    const session = /(?:^|\s)-?session:/i.test(this.state.q) ? "all" : this.session();
    byId("session").value = String(session);
    byId("all").checked = this.state.all !== "";
    const calls = this.state.rows !== "messages";
    for (const [id, pressed] of [["as-calls", calls], ["as-messages", !calls]]) byId(id).setAttribute("aria-pressed", pressed);
    const scope = this.scope(session);
    const { base, every, offsets, cuts } = scope;
    byId("all").closest("label").hidden = !scope.plumbing;
    const key = `${session} ${this.store.version}`;
    if (key !== this.drawn) {
      this.waterfall.set(every, offsets, cuts, this.groups(session));
      byId("times").hidden = !every.length;
      byId("facts").replaceChildren(...factsOf(this.store, { sessions: this.shown(session), found: scope.found, lasted: every.length ? this.waterfall.total : NaN, go: ({ row, ...changes }) => this.set(row === undefined ? changes : { ...changes, at: this.placeOf(row) }) }));
    }
    this.drawn = key;
    if (terms === null) return this.select(quietly);
    const slow = setTimeout(() => (byId("count").textContent = "searching …"), 100);
    const found = terms.length ? await rowsByTexts(this.store, terms, rowsByColumns(this.store, terms, base), () => turn === this.turn, (share) => {
      if (byId("count").textContent.startsWith("searching")) byId("count").textContent = `searching … ${Math.floor(share * 100)} %`;
    }) : base;
    clearTimeout(slow);
    if (found === null || turn !== this.turn) return;
    const range = this.range();
    const kept = range ? found.filter((row) => this.within(row, range)) : found;
    const flags = (rows) => rows.reduce((all, row) => ((all[row] = 1), all), new Uint8Array(this.store.count));
    this.matches = terms.length ? flags(found) : null;
    this.kept = flags(kept);
    const top = calls ? callRows(this.store, base, this.kept, terms.length > 0) : { rows: kept, folded: new Map() };
    const messages = kept.length === base.length ? plural(kept.length, "message") : `${kept.length.toLocaleString("en")} of ${base.length.toLocaleString("en")}`;
    byId("count").textContent = calls ? `${plural(top.calls, "call")}, ${messages}` : messages;
    this.chips(range);
    this.waterfall.range = range;
    this.list.show(top, { calls, many: offsets.size > 1, frame: { timeOf: (row) => this.waterfall.timeOf(row), from: this.waterfall.from, to: this.waterfall.to }, shows: (row) => this.state.all !== "" || !this.store.is("plumbing", row) });
    this.select(quietly);
    if (this.follow) this.end();
    await this.tab(kept);
  }

  // The sessions that are shown.
  shown(session) {
    return session === "all" ? [...this.store.sessions.values()] : [this.store.sessions.get(session)].filter(Boolean);
  }

  // Servers whose calls have lanes of their own: their names, and by session which.
  groups(session) {
    const named = (one) => one.label ?? one.server ?? "calls";
    const names = [...new Set(this.shown(session).map(named))];
    if (names.length < 2 || names.length > MOST_GROUPS) return { names: ["calls"], of: new Map() };
    return { names, of: new Map(this.shown(session).map((one) => [one.id, names.indexOf(named(one))])) };
  }

  // The rows of a session, or of all, merged by time; `base`: without the HTTP events around messages.
  scope(session) {
    const { store } = this;
    const key = `${session} ${this.state.all} ${store.version}`;
    if (this.scoped?.key !== key) this.scoped = { key, ...this.scopeOf(session) };
    return this.scoped;
  }

  scopeOf(session) {
    const { store } = this;
    const of = (all) => new Map(session === "all" ? all : [...all].filter(([number]) => number === session));
    const lasted = of(store.lasted);
    const { offsets, cuts } = offsetsOf([...store.sessions.values()], lasted);
    const every = merged(of(store.runs), offsets, store.columns.at);
    const base = this.state.all || !every.some((row) => store.is("plumbing", row)) ? every : every.filter((row) => !store.is("plumbing", row));
    return { base, every, offsets, cuts, plumbing: this.state.all !== "" || base.length < every.length, found: summary(store, every) };
  }

  // A message is within a range if any part of its call is.
  within(row, [from, to]) {
    const { store, waterfall } = this;
    const { mate } = store.columns;
    const request = store.word("kind", row) === "response" && mate[row] !== NONE ? mate[row] : row;
    const start = waterfall.timeOf(request);
    if (start > to) return false;
    if (store.word("kind", request) !== "request") return start >= from;
    return (mate[request] === NONE ? start + Math.max(0, store.duration(request)) : waterfall.timeOf(mate[request])) >= from;
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
    if (range) box.append(el("button", { type: "button", title: "show all of the time (0)", onclick: () => this.set({ range: "" }) }, `${(range[0] / 1e6).toFixed(3)} – ${(range[1] / 1e6).toFixed(3)} s ×`), el("span", { class: "facts" }, duration(range[1] - range[0])));
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
    const [turn, session] = [this.turn, this.session()];
    const { q, range, all } = this.state;
    const is = JSON.stringify([tab, session, q, range, all, kept.length, this.store.count, number, this.listed]);
    if (compares || (is === this.other && other.childElementCount)) return undefined;
    const filterFor = (group) => `method:${word(this.store.word("method", group.row))}${this.store.word("name", group.row) === null ? "" : ` tool:${word(this.store.word("name", group.row))}`}`;
    const shown = tab === "tools" ? await tools(this.store, kept, (group) => this.set({ tab: "messages", q: filterFor(group) }))
      : tab === "surface" ? await surfaceOf(this.store, this.scope(session).base)
      : tab === "findings" ? findings(this.store, (row, one) => this.isShown(row, one), (row) => this.set({ tab: "messages", session: String(this.store.columns.session[row]), at: this.placeOf(row), q: "", range: "" }), session === "all" ? "all sessions" : "this session")
      : tab === "compare" ? chooser(this.store)
      : sessions(this.store, (id) => this.set({ tab: "messages", session: String(id), at: "", range: "" }));
    if (turn !== this.turn) return undefined;
    other.replaceChildren(shown);
    this.other = is;
    return undefined;
  }

  // Whether a finding concerns the rows on the page.
  isShown(row, one) {
    if (row >= 0) return this.kept?.[row] === 1;
    return this.session() === "all" || this.session() === one.session;
  }

  complete(text) {
    const { store } = this;
    const [, before, field, value] = /^(.*?)(?:-?([a-z]+):)?(\S*)$/is.exec(text) ?? [];
    const names = (column) => [...new Set(store.columns[column].subarray(0, store.count))].filter((one) => one !== NONE).map((one) => store.words[one]).slice(0, 500).map(word);
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
      if (this.state.marks) return void this.set({ marks: "" });
      return this.state.range ? void this.set({ range: "" }) : undefined;
    }
    if (event.target.role === "tab" && event.key.startsWith("Arrow")) return this.besides(event);
    if (typing || byId("help").open || (event.key.startsWith("Arrow") && event.target.closest("aside, #times"))) return;
    const page = Math.max(1, Math.floor(byId("list").clientHeight / 24) - 1);
    const { list, waterfall } = this;
    const acts = {
      j: () => list.move(1), k: () => list.move(-1), ArrowDown: () => list.move(1), ArrowUp: () => list.move(-1),
      ArrowRight: () => list.into(), ArrowLeft: () => list.outOf(), PageDown: () => list.move(page), PageUp: () => list.move(-page),
      n: () => list.attend(1), p: () => list.attend(-1), g: () => list.go(0), G: () => list.go(list.rows.length - 1), Home: () => list.go(0), End: () => list.go(list.rows.length - 1),
      m: () => this.set({ rows: this.state.rows ? "" : "messages" }), r: () => this.measure(),
      "+": () => waterfall.zoom(0.5), "=": () => waterfall.zoom(0.5), "-": () => waterfall.zoom(2), 0: () => waterfall.window(0, Infinity),
      h: () => waterfall.pan(-0.25), l: () => waterfall.pan(0.25),
      c: () => this.details.copyMessage(), f: () => this.toggleFollow(), "/": () => byId("filter").focus(), "?": () => this.help(),
    };
    const tab = Object.keys(TABS)[Number(event.key) - 1];
    if (tab && !byId(`tab-${tab}`).hidden) acts[event.key] = () => this.set({ tab });
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    acts[event.key]();
  }

  // Go to the next view, as the arrows do among tabs: https://www.w3.org/WAI/ARIA/apg/patterns/tabs/
  besides(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const shown = [...byId("tabs").children].filter((one) => !one.hidden);
    const next = shown.at((shown.indexOf(event.target) + step) % shown.length);
    next.focus();
    next.click();
  }

  // Mark the selected row for the ruler; a third mark clears the others. The second one is at the end of its call.
  measure() {
    const row = this.chosen();
    if (row === null) return this.details.say("select a row first");
    const marks = this.marks();
    if (marks.length > 1) return void this.set({ marks: "" });
    const mate = this.store.columns.mate[row];
    const at = marks.length && mate > row ? mate : row;
    this.set({ marks: [...marks, Math.round(this.waterfall.timeOf(at))].join("-") });
    return undefined;
  }

  toggleFollow() {
    this.follow = !this.follow;
    this.details.say(this.follow ? "following" : "not following");
    if (this.follow) this.end();
  }

  help() {
    const terms = (all) => el("dl", {}, ...Object.entries(all).flatMap(([key, what]) => [el("dt", {}, el("code", {}, key)), el("dd", {}, what)]));
    const close = el("button", { type: "button", class: "close", "aria-label": "Close help", onclick: () => byId("help").close() }, "×");
    byId("help").replaceChildren(close, el("h2", {}, "Keys"), terms(KEYS), el("h2", {}, "Filters"), terms(FILTERS), el("p", { class: "facts" }, "Over the waterfall, the wheel zooms; with Shift, it moves. Drag to zoom in on a range, double-click to see all, Shift and drag to measure. The list shows what the waterfall shows."));
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
