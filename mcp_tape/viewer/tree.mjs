// JSON as a tree that is parsed as it is unfolded: verbatim numbers and names, however deep or large.

import { el, visible, plural } from "./text.mjs";

const SCALAR = /[^\s,\]}]+/y;
const BLANK = /\s*/y;
const STRING = /"(?:[^"\\]|\\[^])*"/y;
const FIRST = 100; // children shown at once
const LONG = 2_000; // characters of a string
export const MOST_PLACES = 10_000; // of a pattern

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
  return el("div", { class: "tree" }, node(text, null, blank(text, 0), text.trimEnd().length, open));
}

function node(text, name, start, end, open) {
  const label = name === null ? null : el("span", { class: "name" }, visible(name.slice(1, -1)), ": ");
  const first = text[start];
  if (first !== "{" && first !== "[") return el("div", { class: "leaf" }, label, scalar(text.slice(start, end)));
  const inside = members(text, start);
  const next = inside.next();
  if (next.done) return el("div", { class: "leaf" }, label, first === "{" ? "{}" : "[]");
  const body = el("div", { class: "members" });
  const close = first === "{" ? "}" : "]";
  const brief = el("span", { class: "brief" }, visible(text.slice(start, Math.min(end, start + 80)).replace(/\s+/g, " ")), end - start > 80 ? "…" : "");
  const fold = el("details", {}, el("summary", {}, label, brief, el("span", { class: "bracket" }, first)), body, el("div", { class: "bracket" }, close));
  let more = null; // adds members, at least this many
  const fill = () => {
    if (more || !fold.open) return;
    more = filler(body, text, next.value, inside, open - 1);
    more(FIRST);
  };
  fold.addEventListener("toggle", fill);
  if (open > 0) {
    fold.open = true;
    fill();
  }
  // The element of a member, by its number.
  fold.member = (index) => {
    fold.open = true;
    fill();
    more(index + 1 - body.querySelectorAll(":scope > :not(button)").length);
    return body.children[index];
  };
  return fold;
}

function filler(body, text, one, inside, open) {
  let next = { done: false, value: one };
  const button = el("button", { type: "button", onclick: () => add(FIRST) }, `… ${plural(FIRST, "more member")}`);
  const add = (count) => {
    const added = [];
    button.remove();
    for (; !next.done && added.length < count; next = inside.next()) added.push(node(text, ...next.value, open));
    body.append(...added, ...(next.done ? [] : [button]));
  };
  return add;
}

function scalar(source) {
  if (source[0] !== '"') return el("span", { class: "scalar" }, visible(source));
  const box = el("span", { class: "string" });
  const show = (from, end) => {
    const rest = source.length - end;
    box.replaceChildren(from ? `… ${plural(from, "character")} … ` : "", visible(source.slice(from, end)));
    if (rest) box.append(el("button", { type: "button", onclick: () => show(from, end + 500_000) }, `… ${plural(rest, "more character")}`));
  };
  show(0, source.length <= LONG ? source.length : LONG);
  // Show the part of a long text that a pattern fits.
  box.find = (pattern) => {
    let at = source.search(pattern);
    // In its decoded form: as many characters on, each of which may be an escape.
    if (at < 0) for (let left = string(source).search(pattern) + (at = 1); left > 1; left--) at += source[at] !== "\\" ? 1 : source[at + 1] === "u" ? 6 : 2;
    if (at >= LONG) show(Math.max(0, at - 500), Math.min(source.length, at + LONG));
  };
  return box;
}

// Where a pattern fits names and values: the numbers of members from the whole value on. A text may be untrusted and long.
const TOKEN = /"(?:[^"\\]|\\[^])*"|[{}[\],:]|[^\s"{}[\],:]+/g;
export function placesOf(text, pattern) {
  const [found, levels] = [[], []];
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === "{" || token === "[") levels.push(0);
    else if (token === "}" || token === "]") levels.pop();
    else if (token === ",") levels[levels.length - 1]++;
    else if (token !== ":" && (pattern.test(token) || (token.includes("\\") && pattern.test(string(token))))) {
      if (found.at(-1)?.join() !== levels.join()) found.push([...levels]);
      if (found.length >= MOST_PLACES) break;
    }
  }
  return found;
}

// Unfold a tree down to a place, and mark it.
export function reveal(shown, place, pattern) {
  for (const one of shown.querySelectorAll(".hit")) one.classList.remove("hit");
  let one = shown.firstElementChild;
  for (const index of place) one = one?.member?.(index);
  if (!one) return;
  one.querySelector(":scope > .string")?.find(pattern);
  const mark = one.querySelector(":scope > summary") ?? one;
  mark.classList.add("hit");
  mark.scrollIntoView({ block: "nearest" });
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
