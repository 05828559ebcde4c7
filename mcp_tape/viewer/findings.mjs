// Findings of `mcp-tape why` and `mcp-tape check --audit`, with line and evidence.

import { el, harmless, plural, visible } from "./text.mjs";
import { NONE } from "./store.mjs";

// The findings by row; NONE for those without a row.
export function byRow(store) {
  const found = new Map();
  for (const one of store.findings) {
    const row = one.seq === null ? NONE : store.rowOf(one.session, one.seq);
    found.set(row, [...(found.get(row) ?? []), one]);
  }
  return found;
}

function note(one) {
  const evidence = (one.evidence ?? []).map((line) => el("li", {}, el("code", {}, visible(line))));
  return el("div", { class: `finding ${one.by}` },
    el("p", {}, el("strong", {}, visible(one.what)), " ", el("span", { class: "facts" }, `${one.by === "why" ? "why" : "audit"}: ${harmless(one.rule)}`)),
    el("p", { class: "facts" }, harmless(one.says)),
    one.path ? el("p", { class: "facts" }, "at ", el("code", {}, visible(one.path))) : null,
    evidence.length ? el("ul", { class: "evidence" }, ...evidence) : null);
}

// The findings of a row, for its details.
export function findingsOf(store, row) {
  return (store.found?.get(row) ?? []).map(note);
}

// All findings of the sessions and rows on the page.
export function findings(store, isShown, choose, title) {
  const rows = [...store.found.entries()].filter(([row, [one]]) => isShown(row, one)).sort(([a], [b]) => a - b);
  const number = rows.reduce((sum, [, found]) => sum + found.length, 0);
  const items = rows.flatMap(([row, found]) => found.map((one) => {
    const where = `${store.sessions.size > 1 ? `session ${one.session} ` : ""}${one.seq === null ? "" : `#${one.seq}`}`.trim();
    const open = row < 0 ? (where ? el("span", { class: "facts" }, where) : null) : el("button", { type: "button", onclick: () => choose(row) }, where);
    return el("li", {}, open, note(one));
  }));
  if (!items.length) return el("p", { class: "empty" }, `Nothing was found in ${title}: all calls were answered, and no text tries to steer a model.`);
  return el("div", { class: "findings" }, el("h2", {}, plural(number, "finding")),
    el("p", { class: "facts" }, "why: what explains a hang or a failure. audit: text of the server that may try to steer a model; a suspicion is not proof."),
    el("ol", {}, ...items));
}
