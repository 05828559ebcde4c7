// The list: only the rows on the screen are in the document.

import { byId, duration, el, harmless } from "./text.mjs";

const HEIGHT = 24; // pixels of a row, as in app.css
const AROUND = 8; // rows beyond the edges

export class List {
  constructor(store, chosen) {
    Object.assign(this, { store, chosen, rows: [], selected: null, drawn: new Map() });
    this.box = byId("list");
    this.inner = byId("rows");
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.inner.addEventListener("click", (event) => {
      const found = event.target.closest(".row");
      if (found) this.chosen(Number(found.dataset.row));
    });
  }

  // `many`: rows of several sessions. `frame`: the time range on the page.
  show(rows, many, frame) {
    Object.assign(this, { rows, many, frame });
    this.box.parentElement.classList.toggle("many", many);
    byId("tall").style.height = `${rows.length * HEIGHT}px`;
    this.inner.replaceChildren();
    this.drawn.clear();
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - AROUND);
    const last = Math.min(this.rows.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / HEIGHT) + AROUND);
    const wanted = new Map();
    for (let at = first; at < last; at++) wanted.set(this.rows[at], at);
    for (const [row, element] of this.drawn) {
      if (!wanted.has(row)) {
        element.remove();
        this.drawn.delete(row);
      }
    }
    for (const [row, at] of wanted) {
      if (this.drawn.has(row)) continue;
      const element = this.made(row, at);
      this.drawn.set(row, element);
      this.inner.append(element);
    }
  }

  made(row, at) {
    const { store } = this;
    const { session, seq, at: time, client, id, took, size, part } = store.columns;
    const number = `${this.many ? `${session[row]}:` : ""}${seq[row]}${part[row] ? `.${part[row]}` : ""}`;
    const status = store.status(row);
    const kind = store.word("kind", row);
    const says = kind === "response" || (kind === "request" && ["unanswered", "cancelled", "retry"].includes(status));
    const line = el("span", { class: "line", dir: "ltr" });
    const found = store.found?.has(row);
    const classes = ["row", store.odd(row) && "odd", found && "found", store.is("redacted", row) && "redacts", store.is("dim", row) && "dim", kind ?? store.word("frame", row), row === this.selected && "selected"];
    const arrow = client[row] ? "→" : "←";
    const element = el(
      "div",
      { class: classes.filter(Boolean).join(" "), role: "option", id: `row-${row}`, "data-row": row, "aria-selected": row === this.selected, "aria-posinset": at + 1, "aria-setsize": this.rows.length },
      el("span", { class: "number" }, number),
      el("span", { class: "number" }, ((this.many ? this.frame.timeOf(row) : time[row]) / 1e6).toFixed(3)),
      el("span", { class: "arrow", title: client[row] ? "from the client" : "from the server" }, (store.odd(row) ? "!" : "") + arrow),
      el("span", { class: "id" }, id[row] === null ? "" : harmless(`#${id[row]}`)),
      this.what(row),
      el("span", { class: `status ${status ?? ""}` }, says ? harmless(status ?? "") : ""),
      el("span", { class: "number" }, kind === "response" ? duration(took[row]) : ""),
      el("span", { class: "number" }, store.word("frame", row) === "control" ? "" : size[row].toLocaleString("en")),
      line,
      this.bar(row),
    );
    element.style.top = `${at * HEIGHT}px`;
    element.dataset.at = at;
    element.dataset.place = `${session[row]}.${seq[row]}`;
    this.fill(row, line);
    return element;
  }

  // The description of a row in two parts; a narrow list shows only the second.
  what(row) {
    const said = harmless(this.store.what(row));
    const [, first, rest] = /^(notifications\/|\S+ )(.*)$/s.exec(this.store.word("kind", row) ? said : "") ?? [];
    const parts = rest ? [el("span", { class: "method" }, first), el("span", {}, rest)] : [el("span", {}, said)];
    return el("span", { class: "what", title: said }, ...parts);
  }

  // The time of a row and the duration of its call, within the shown range.
  bar(row) {
    const mark = el("i", {});
    const { timeOf, from, to } = this.frame;
    const mate = this.store.mates[row];
    const [start, end] = [timeOf(row), timeOf(mate ?? row)].sort((a, b) => a - b);
    const share = (time) => Math.max(0, Math.min(1, (time - from) / (to - from || 1))) * 100;
    mark.style.left = `${share(start)}%`;
    mark.style.width = `${share(end) - share(start)}%`;
    return el("span", { class: `bar ${mate === null ? "point" : ""}`, "aria-hidden": true }, mark);
  }

  fill(row, line) {
    const said = this.store.line(row);
    if (said instanceof Promise) said.then((text) => (line.textContent = text));
    else line.textContent = said;
  }

  select(row) {
    for (const [one, element] of this.drawn) {
      element.classList.toggle("selected", one === row);
      element.setAttribute("aria-selected", one === row);
    }
    this.selected = row;
    const at = row === null ? -1 : this.rows.indexOf(row);
    if (at < 0) return this.box.removeAttribute("aria-activedescendant");
    const [top, height] = [at * HEIGHT, this.box.clientHeight];
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + HEIGHT > this.box.scrollTop + height) this.box.scrollTop = top + HEIGHT - height;
    this.draw();
    this.box.setAttribute("aria-activedescendant", `row-${row}`);
  }

  // The row at this distance from the selection; the first or last without one.
  near(steps) {
    const at = this.selected === null ? -1 : this.rows.indexOf(this.selected);
    if (at < 0) return this.rows[steps < 0 ? this.rows.length - 1 : 0];
    return this.rows[Math.max(0, Math.min(this.rows.length - 1, at + steps))];
  }

  // The next row that needs attention, in one direction.
  odd(step) {
    const at = this.selected === null ? (step > 0 ? -1 : this.rows.length) : this.rows.indexOf(this.selected);
    for (let i = at + step; i >= 0 && i < this.rows.length; i += step) if (this.store.odd(this.rows[i])) return this.rows[i];
    return undefined;
  }
}
