// The list: calls that unfold, or all messages. Only the rows on the screen are in the document.

import { byId, duration, el, harmless, plural } from "./text.mjs";
import { NONE } from "./store.mjs";
import { kinds } from "./calls.mjs";

const HEIGHT = 24; // pixels of a row, as in app.css
const AROUND = 8; // rows beyond the edges
const TALLEST = 12_000_000; // pixels; a browser lays out no more
const NOTHING = { rows: new Int32Array(0), folded: new Map() };

export class List {
  // `chosen`: a row is; `hovered`: the pointer is over one; `empty`: what to show instead of no rows.
  constructor(store, { chosen, hovered, empty }) {
    Object.assign(this, { store, chosen, hovered, empty, top: NOTHING, rows: NOTHING.rows, levels: new Uint8Array(0), opened: new Set(), selected: null, at: NONE, drawn: new Map() });
    this.box = byId("list");
    this.inner = byId("rows");
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.inner.addEventListener("click", (event) => this.clicked(event));
    this.inner.addEventListener("dblclick", (event) => this.toggle(this.placeOf(event)));
    this.inner.addEventListener("pointerover", (event) => this.hovered(this.placeOf(event) === NONE ? null : this.rows[this.placeOf(event)]));
    this.inner.addEventListener("pointerleave", () => this.hovered(null));
  }

  placeOf(event) {
    return Number(event.target.closest(".row")?.dataset.at ?? NONE);
  }

  clicked(event) {
    const at = this.placeOf(event);
    if (at === NONE) return;
    if (event.target.closest(".fold") || this.isFolded(at)) this.toggle(at);
    this.at = at;
    if (!this.isFolded(at)) this.chosen(this.rows[at]);
  }

  // `top`: rows, and those that are folded into one. `calls`: rows are calls. `many`: of several sessions. `frame`: the
  // time range on the page. `shows`: whether a row is shown below its call.
  show(top, { calls, many, frame, shows }) {
    Object.assign(this, { top, calls, many, frame, shows });
    this.box.parentElement.classList.toggle("many", many);
    this.unfold();
  }

  // Put the rows of unfolded calls below them.
  unfold() {
    const { top, store } = this;
    if (this.calls && this.opened.size) {
      const [rows, levels] = [[], []];
      for (const row of top.rows) {
        rows.push(row);
        levels.push(0);
        if (!this.opened.has(row)) continue;
        for (const one of this.parts(row)) (rows.push(one), levels.push(1));
      }
      [this.rows, this.levels] = [Int32Array.from(rows), Uint8Array.from(levels)];
    } else [this.rows, this.levels] = [top.rows, null];
    this.scale = Math.min(1, TALLEST / Math.max(1, this.rows.length * HEIGHT));
    byId("tall").style.height = `${this.rows.length * HEIGHT * this.scale}px`;
    const nothing = byId("nothing");
    nothing.hidden = this.rows.length > 0;
    if (!nothing.hidden) nothing.replaceChildren(...this.empty());
    this.box.hidden = !nothing.hidden;
    this.at = this.find(this.selected);
    this.redraw();
  }

  // Draw rows anew, in the elements that are there: a click that has begun on one is not lost.
  redraw() {
    for (const [at, element] of this.drawn) {
      if (at >= this.rows.length) {
        element.remove();
        this.drawn.delete(at);
        continue;
      }
      const now = this.row(at);
      for (const name of element.getAttributeNames()) if (name !== "style" && !now.hasAttribute(name)) element.removeAttribute(name);
      for (const { name, value } of now.attributes) element.setAttribute(name, value);
      element.replaceChildren(...now.childNodes);
    }
    this.draw();
  }

  level(at) {
    return this.levels?.[at] ?? 0;
  }

  isFolded(at) {
    return this.calls && this.level(at) === 0 && this.top.folded.has(this.rows[at]);
  }

  parts(row) {
    return this.top.folded.get(row) ?? [...this.store.parts(row)].filter(this.shows);
  }

  // Whether a row unfolds.
  unfolds(at) {
    const row = this.rows[at];
    const { call, mate } = this.store.columns;
    if (!this.calls || this.level(at) > 0) return false;
    if (this.isFolded(at) || call[row] !== row) return this.isFolded(at);
    if (mate[row] !== NONE) return true;
    for (const one of this.store.parts(row)) if (this.shows(one)) return true;
    return false;
  }

  toggle(at, open = !this.opened.has(this.rows[at])) {
    if (at === NONE || !this.unfolds(at)) return;
    const row = this.rows[at];
    if (open) this.opened.add(row);
    else this.opened.delete(row);
    this.unfold();
    this.at = this.rows.indexOf(row);
  }

  // Unfold a row, or go into it; fold it, or go to its call.
  into() {
    if (this.at === NONE || !this.unfolds(this.at)) return;
    if (this.opened.has(this.rows[this.at])) this.move(1);
    else this.toggle(this.at, true);
  }

  outOf() {
    if (this.at === NONE) return;
    let at = this.at;
    while (at > 0 && this.level(at)) at--;
    if (at === this.at) return this.toggle(at, false);
    this.go(at);
  }

  // The pixel at which a row begins. A list that is too tall for a browser scrolls faster than its rows.
  get first() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    if (this.scale === 1) return scrollTop / HEIGHT;
    return (scrollTop / Math.max(1, scrollHeight - clientHeight)) * Math.max(0, this.rows.length - clientHeight / HEIGHT);
  }

  draw() {
    const { first } = this, height = this.box.clientHeight;
    const low = Math.max(0, Math.floor(first) - AROUND);
    const high = Math.min(this.rows.length, Math.ceil(first + height / HEIGHT) + AROUND);
    for (const [at, element] of this.drawn) {
      if (at >= low && at < high) continue;
      element.remove();
      this.drawn.delete(at);
    }
    for (let at = low; at < high; at++) {
      if (!this.drawn.has(at)) {
        const element = this.row(at);
        this.drawn.set(at, element);
        this.inner.append(element);
      }
      this.drawn.get(at).style.top = `${this.scale === 1 ? at * HEIGHT : this.box.scrollTop + (at - first) * HEIGHT}px`;
    }
  }

  row(at) {
    const { store } = this;
    const row = this.rows[at], level = this.level(at);
    const { session, seq, part, mate, client, size, call } = store.columns;
    const number = `${this.many ? `${session[row]}:` : ""}${seq[row]}${part[row] > 0 ? `.${part[row]}` : ""}`;
    const kind = store.word("kind", row);
    const isFolded = this.isFolded(at), isCall = this.calls && level === 0 && call[row] === row;
    const answer = isCall && mate[row] !== NONE ? mate[row] : NONE;
    const odd = isCall ? store.failed(row) : store.odd(row);
    const both = (test) => test(row) || (answer !== NONE && test(answer));
    const status = isFolded ? null : store.status(isCall ? store.work(row).at(-1) : row);
    const says = isCall || kind === "response" || (kind === "request" && ["unanswered", "cancelled", "retry"].includes(status));
    const unfolds = this.unfolds(at), open = unfolds && this.opened.has(row);
    const dim = isFolded || store.is("dim", row) || (this.calls && !isCall && !odd && (kind === null || kind === "notification"));
    const classes = ["row", odd && !isFolded && "odd", both((one) => store.found?.has(one)) && "found", !isFolded && both((one) => store.is("redacted", one)) && "redacts", dim && "dim",
      isCall ? "call" : isFolded ? "folded" : (kind ?? store.word("frame", row)), at === this.at && "selected", row === this.pointed && "pointed"];
    const arrow = isFolded ? "" : (odd ? "!" : "") + (client[row] ? "→" : "←");
    const bytes = size[row] + (answer === NONE ? 0 : size[answer]);
    const id = store.id(row);
    const element = el(
      "div",
      { class: classes.filter(Boolean).join(" "), role: "treeitem", id: `row-${at}`, "aria-level": level + 1, "aria-expanded": unfolds ? String(open) : null, "aria-selected": String(at === this.at), "aria-posinset": at + 1, "aria-setsize": this.rows.length },
      el("span", { class: "number" }, number),
      el("span", { class: "number" }, (this.frame.timeOf(row) / 1e6).toFixed(3)),
      el("span", { class: "arrow", title: client[row] ? "from the client" : "from the server" }, arrow),
      el("span", { class: "id" }, id === null || isFolded ? "" : harmless(`#${id}`)),
      this.what(row, isFolded ? kinds(store, this.parts(row)) : null, level, unfolds, open),
      el("span", { class: `status ${status ?? ""}` }, says ? harmless(status ?? (isCall && store.isOpen(row) ? "waits" : "")) : ""),
      el("span", { class: "number" }, isCall || kind === "response" ? this.took(row) : ""),
      el("span", { class: "number" }, store.word("frame", row) === "control" || isFolded ? "" : bytes.toLocaleString("en")),
      isFolded ? el("span", { class: "line" }, plural(this.parts(row).length, "row")) : this.line(row, answer),
      this.bar(row, isFolded),
    );
    Object.assign(element.dataset, { at, row, place: `${session[row]}.${seq[row]}` });
    return element;
  }

  // How long a call took; all of its rounds together. One without an answer took at least until its session ended.
  took(row) {
    const { store } = this;
    const { call, took, at, mate } = store.columns;
    if (store.word("kind", row) === "response") return duration(took[row]);
    if (call[row] !== row) return "";
    const last = store.work(row).at(-1);
    if (mate[last] === NONE) return store.ends.has(last) ? "" : `> ${duration(store.duration(last) + at[last] - at[row])}`;
    return duration(at[mate[last]] - at[row]);
  }

  // The description of a row in two parts; a narrow list shows only the second.
  what(row, said, level, unfolds, open) {
    const words = said ?? harmless(this.store.what(row));
    const [, first, rest] = /^(notifications\/|\S+ )(.*)$/s.exec(said === null && this.store.word("kind", row) ? words : "") ?? [];
    const parts = rest ? [el("span", { class: "method" }, first), el("span", {}, rest)] : [el("span", {}, words)];
    const fold = this.calls && level === 0 ? el("span", { class: "fold", "aria-hidden": "true" }, unfolds ? (open ? "▾" : "▸") : "") : null;
    return el("span", { class: `what level-${level}`, title: words }, fold, ...parts);
  }

  // The time of a row and the duration of its call, within the shown range.
  bar(row, isFolded) {
    const mark = el("i", {});
    const { store } = this;
    const { timeOf, from, to } = this.frame;
    const { mate, call } = store.columns;
    const isRequest = store.word("kind", row) === "request" && !isFolded;
    const last = this.calls && call[row] === row ? store.work(row).at(-1) : row;
    const end = isRequest ? (mate[last] === NONE ? timeOf(last) + Math.max(0, store.duration(last)) : timeOf(mate[last])) : timeOf(mate[row] === NONE ? row : mate[row]);
    const [start, until] = [timeOf(row), end].sort((a, b) => a - b);
    const share = (time) => Math.max(0, Math.min(1, (time - from) / (to - from || 1))) * 100;
    mark.style.left = `${share(start)}%`;
    mark.style.width = `${share(until) - share(start)}%`;
    return el("span", { class: `bar ${isRequest || mate[row] !== NONE ? "" : "point"}`, "aria-hidden": "true" }, mark);
  }

  // The line of a row; of a call, its arguments and its result.
  line(row, answer) {
    const fill = (one) => {
      const part = el("span", {});
      const said = this.store.line(one);
      if (said instanceof Promise) said.then((text) => (part.textContent = harmless(text)), () => (part.textContent = "cannot be read"));
      else part.textContent = harmless(said);
      return part;
    };
    if (answer === NONE) return el("span", { class: "line", dir: "ltr" }, fill(row));
    return el("span", { class: "line both", dir: "ltr" }, fill(row), el("b", {}, " → "), fill(answer));
  }

  // The place of a row: its own; of a message of a call that is folded, the call's.
  find(row) {
    if (row === null) return NONE;
    if (this.at !== NONE && this.rows[this.at] === row) return this.at;
    const at = this.rows.lastIndexOf(row);
    if (at >= 0 || !this.calls) return at;
    const { call } = this.store.columns;
    for (const [first, all] of this.top.folded) if (all.includes(row)) return this.rows.indexOf(first);
    return call[row] === NONE ? NONE : this.rows.indexOf(call[row]);
  }

  // Mark the row that is selected, and show it; `quietly`: where it is.
  select(row, quietly = false) {
    this.selected = row;
    this.at = this.find(row);
    for (const [at, element] of this.drawn) {
      element.classList.toggle("selected", at === this.at);
      element.setAttribute("aria-selected", String(at === this.at));
    }
    if (this.at < 0) return this.box.removeAttribute("aria-activedescendant");
    if (!quietly) this.reveal(this.at);
    this.box.setAttribute("aria-activedescendant", `row-${this.at}`);
  }

  reveal(at) {
    const { first } = this, rows = this.box.clientHeight / HEIGHT;
    const pixels = (place) => (this.scale === 1 ? place * HEIGHT : (place / Math.max(1, this.rows.length - rows)) * (this.box.scrollHeight - this.box.clientHeight));
    if (at < first) this.box.scrollTop = pixels(at);
    else if (at + 1 > first + rows) this.box.scrollTop = Math.ceil(pixels(at + 1 - rows));
    this.draw();
  }

  // Mark the row under the pointer in the waterfall.
  point(row) {
    this.pointed = row;
    for (const element of this.drawn.values()) element.classList.toggle("pointed", row !== null && Number(element.dataset.row) === row);
  }

  go(at) {
    if (at < 0 || at >= this.rows.length) return;
    this.at = at;
    this.chosen(this.rows[at]);
  }

  // Select the row at this distance from the selection; the first or last without one.
  move(steps) {
    if (this.at === NONE) return this.go(steps < 0 ? this.rows.length - 1 : 0);
    return this.go(Math.max(0, Math.min(this.rows.length - 1, this.at + steps)));
  }

  // Select the next row that needs attention, in one direction.
  attend(step) {
    const { call } = this.store.columns;
    const odd = (at) => (this.calls && this.level(at) === 0 && call[this.rows[at]] === this.rows[at] ? this.store.failed(this.rows[at]) : this.store.odd(this.rows[at]));
    for (let at = this.at === NONE ? (step > 0 ? 0 : this.rows.length - 1) : this.at + step; at >= 0 && at < this.rows.length; at += step) if (odd(at)) return this.go(at);
    return undefined;
  }
}
