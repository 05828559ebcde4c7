// Two recordings side by side: the report of `diff`, embedded unchanged, and their calls as it aligned them.

import { byId, duration, el, harmless, plural } from "./text.mjs";
import { NONE } from "./store.mjs";

const LEVELS = ["error", "warn", "info"];
const AT_FIRST = 500; // calls in the list at first
const MOST_CALLS = 20; // below a change

// The row of a request; null without one.
const rowOf = (store, session, seq) => {
  const row = session === null ? NONE : store.rowOf(session, seq);
  return row === NONE ? null : row;
};

// Pairs of requests, with the worst level and the fingerprints of their changes; the worst first.
export function pairsOf(store) {
  const { pairs, changes } = store.compared;
  const found = pairs.map(([oldSession, oldSeq, newSession, newSeq]) => ({ old: rowOf(store, oldSession, oldSeq), new: rowOf(store, newSession, newSeq), level: LEVELS.length, prints: [] }));
  for (const [print, [level, numbers]] of Object.entries(changes)) {
    for (const number of numbers) {
      found[number].level = Math.min(found[number].level, LEVELS.indexOf(level));
      found[number].prints.push(print);
    }
  }
  return found.map((pair, order) => ({ ...pair, order })).sort((a, b) => a.level - b.level || a.order - b.order);
}

const printsOf = (change) => (change.dataset.changes ?? "").split(" ");

export class Compare {
  constructor(store, choose) {
    Object.assign(this, { store, choose, pairs: store.compared ? pairsOf(store) : [] });
    this.byRow = new Map(this.pairs.flatMap((pair) => [pair.old, pair.new].filter((row) => row !== null).map((row) => [row, pair])));
    if (store.compared) this.furnish();
  }

  // The counterpart of a request; null without one.
  other(row) {
    const pair = this.byRow.get(row);
    return pair ? (pair.old === row ? pair.new : pair.old) : null;
  }

  // The changes of a request's call, from the report.
  changes(row) {
    const prints = new Set(this.byRow.get(row)?.prints);
    const mine = [...byId("report").querySelectorAll("details.change")].filter((one) => printsOf(one).some((print) => prints.has(print))).flatMap((one) => [one.closest(".rule").querySelector("h3"), one].map((part) => part.cloneNode(true)));
    for (const one of mine) {
      one.removeAttribute("id");
      for (const link of one.querySelectorAll(".calls-of, a")) link.remove();
    }
    return mine.length ? [el("div", { class: "changes" }, ...mine)] : [el("p", { class: "facts" }, "No change was found in this call.")];
  }

  // Link each change to its calls, or to those of its tool, and make links scroll within the page.
  furnish() {
    for (const link of byId("report").querySelectorAll("a")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        const change = byId(link.getAttribute("href").slice(1));
        if (!change) return;
        change.open = true;
        change.scrollIntoView({ block: "start" });
      });
    }
    for (const change of byId("report").querySelectorAll("details.change")) {
      const prints = printsOf(change);
      const shows = this.pairs.filter((pair) => pair.prints.some((print) => prints.includes(print)));
      const mine = (shows.length ? shows : this.callsOf(prints)).sort((a, b) => a.order - b.order);
      if (!mine.length) continue;
      const title = !shows.length ? "calls of this tool: " : mine.length === 1 ? "the call that shows it: " : "the calls that show it: ";
      change.append(el("p", { class: "calls-of" }, title, ...mine.slice(0, MOST_CALLS).map((pair) => el("button", { type: "button", onclick: () => this.choose(pair.old ?? pair.new) }, this.title(pair))), mine.length > MOST_CALLS ? ` and ${plural(mine.length - MOST_CALLS, "more call")}` : ""));
    }
    this.draw(AT_FIRST);
  }

  // The calls of the tool that has changed.
  callsOf(prints) {
    const { store } = this;
    const [, , tool] = prints.length === 1 ? (store.compared.changes[prints[0]] ?? []) : [];
    const isCall = (row) => row !== null && store.word("method", row) === "tools/call" && store.word("name", row) === tool;
    return !tool ? [] : this.pairs.filter((pair) => isCall(pair.old) || isCall(pair.new));
  }

  title({ old, new: other }) {
    const { seq } = this.store.columns;
    return [old === null ? "–" : `#${seq[old]}`, other === null ? "–" : `#${seq[other]}`].join(" → ");
  }

  draw(most) {
    const { store } = this;
    const cells = (row) => row === null ? [el("td", { class: "number" }, "–"), el("td", {}), el("td", {})] : [
      el("td", { class: "number" }, `#${store.columns.seq[row]}`), el("td", { class: `status ${store.status(row) ?? ""}` }, store.status(row) ?? ""), el("td", { class: "number" }, duration(store.columns.took[row]))];
    const lines = this.pairs.slice(0, most).map((pair) => {
      const row = pair.old ?? pair.new;
      if (row === null) return null;
      const level = LEVELS[pair.level] ?? (pair.old === null ? "added" : pair.new === null ? "missing" : "same");
      return el("tr", { tabindex: 0, class: level, onclick: () => this.choose(row), onkeydown: (event) => event.key === "Enter" && this.choose(row) },
        el("th", { scope: "row" }, harmless(store.what(row))), el("td", { class: level }, level), ...cells(pair.old), ...cells(pair.new));
    });
    const more = this.pairs.length > most ? el("button", { type: "button", onclick: () => this.draw(most * 4) }, `… ${plural(this.pairs.length - most, "more call")}`) : null;
    const heads = ["call", "change", "old", "status", "took", "new", "status", "took"].map((title, i) => el("th", { scope: "col", class: [2, 4, 5, 7].includes(i) ? "number" : null }, title));
    byId("calls").replaceChildren(el("h2", {}, "Calls, side by side"), el("div", { class: "table" },
      el("table", {}, el("caption", {}, `${plural(this.pairs.length, "call")}, the worst change first; a click shows both`), el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines)), more));
  }
}

// The choice of two sessions, which the page's server then compares.
export function chooser(store) {
  const all = [...store.sessions.values()];
  if (all.length < 2) return el("p", { class: "empty" }, "There is one session so far. With a second one, they can be compared here.");
  const [old, other] = all.slice(-2).map((one) => one.id);
  const select = (label, chosen) => el("select", { "aria-label": label }, ...all.map((one) => el("option", { value: one.id, selected: one.id === chosen }, harmless(`${one.id} · ${one.label ?? one.server}`).slice(0, 60))));
  const sides = [select("Old session", old), select("New session", other)];
  const go = () => (location.href = `compared?old=${sides[0].value}&new=${sides[1].value}`);
  return el("div", { class: "chooser" }, el("h2", {}, "Compare two sessions"), el("p", {}, sides[0], " → ", sides[1], " ", el("button", { type: "button", onclick: go }, "compare")));
}
