// JSON as a tree that is parsed as it is unfolded: verbatim numbers and names, however deep or large.

import { el, visible, plural } from "./text.mjs";

const SCALAR = /[^\s,\]}]+/y;
const BLANK = /\s*/y;
const STRING = /"(?:[^"\\]|\\[^])*"/y;
const FIRST = 100; // children shown at once
const LONG = 2_000; // characters of a string

const match = (pattern, text, at) => {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
};
const blank = (text, at) => at + match(BLANK, text, at).length;

// The end of the value that begins here.
function endOf(text, at) {
  if (text[at] === '"') return at + (match(STRING, text, at).length || text.length);
  if (text[at] !== "{" && text[at] !== "[") return at + (match(SCALAR, text, at).length || 1);
  let depth = 0;
  const mark = /["{}[\]]/g;
  for (mark.lastIndex = at; ; ) {
    const found = mark.exec(text);
    if (!found) return text.length;
    if (found[0] === '"') mark.lastIndex = endOf(text, found.index);
    else if (found[0] === "{" || found[0] === "[") depth++;
    else if (--depth === 0) return found.index + 1;
  }
}

// The members of an object or array: [name or null, start, end].
export function* members(text, at) {
  const named = text[at] === "{";
  for (at = blank(text, at + 1); at < text.length && text[at] !== "}" && text[at] !== "]"; ) {
    let name = null;
    if (named) {
      name = match(STRING, text, at) || '""';
      at = blank(text, at + name.length);
      if (text[at] !== ":") return;
      at = blank(text, at + 1);
    }
    const end = endOf(text, at);
    yield [name, at, end];
    at = blank(text, end);
    if (text[at] === ",") at = blank(text, at + 1);
  }
}

export const isTree = (text) => /^\s*[{[]/.test(text);

// The verbatim text of a member, by its names; null without one.
export function member(text, ...names) {
  let at = blank(text, 0), end = text.length;
  for (const name of names) {
    let found = null;
    if (text[at] === "{") for (const one of members(text, at)) if (string(one[0]) === name) found = one;
    if (!found) return null;
    [, at, end] = found;
  }
  return text.slice(at, end);
}

export function string(source) {
  try {
    return JSON.parse(source);
  } catch {
    return source;
  }
}

export function tree(text, open = 2) {
  return el("div", { class: "tree", role: "tree" }, node(text, null, blank(text, 0), text.trimEnd().length, open));
}

function node(text, name, start, end, open) {
  const label = name === null ? null : el("span", { class: "name" }, visible(name.slice(1, -1)), ": ");
  const first = text[start];
  if (first !== "{" && first !== "[") return el("div", { class: "leaf", role: "treeitem" }, label, scalar(text.slice(start, end)));
  const inside = members(text, start);
  const next = inside.next();
  if (next.done) return el("div", { class: "leaf", role: "treeitem" }, label, first === "{" ? "{}" : "[]");
  const body = el("div", { class: "members", role: "group" });
  const close = first === "{" ? "}" : "]";
  const brief = el("span", { class: "brief" }, visible(text.slice(start, Math.min(end, start + 80)).replace(/\s+/g, " ")), end - start > 80 ? "…" : "");
  const fold = el("details", { role: "treeitem" }, el("summary", {}, label, brief, el("span", { class: "bracket" }, first)), body, el("div", { class: "bracket" }, close));
  let filled = false;
  const fill = () => {
    if (filled || !fold.open) return;
    filled = true;
    more(body, text, next.value, inside, open - 1);
  };
  fold.addEventListener("toggle", fill);
  if (open > 0) {
    fold.open = true;
    fill();
  }
  return fold;
}

function more(body, text, one, inside, open) {
  const made = [];
  let next = { done: false, value: one };
  for (; !next.done && made.length < FIRST; next = inside.next()) made.push(node(text, ...next.value, open));
  body.append(...made);
  if (next.done) return;
  const button = el("button", { type: "button", onclick: () => (button.remove(), more(body, text, next.value, inside, open)) }, `… ${plural(FIRST, "more member")}`);
  body.append(button);
}

function scalar(source) {
  if (source[0] !== '"') return el("span", { class: "scalar" }, visible(source));
  if (source.length <= LONG) return el("span", { class: "string" }, visible(source));
  const box = el("span", { class: "string" }, visible(source.slice(0, LONG)));
  const button = el("button", { type: "button", onclick: () => button.replaceWith(visible(source.slice(LONG, LONG + 500_000))) }, `… ${plural(source.length - LONG, "more character")}`);
  box.append(button);
  return box;
}

export function unfold(box, all) {
  let left = 2_000;
  for (let found = [...box.querySelectorAll("details")]; found.length && left > 0; found = all ? [...box.querySelectorAll("details:not([open])")] : []) {
    for (const one of found.slice(0, left)) {
      one.open = all;
      one.dispatchEvent(new Event("toggle"));
    }
    left -= found.length;
  }
}
