// Untrusted texts in a safe form, and elements made without markup.

const ODD = /(?![ ])[\p{C}\p{Z}]/gu; // characters outside Python's str.isprintable(), as in mcp_tape.errors.harmless
const ODD_IN_TEXT = /\[redacted:[^\]\r\n]{0,200}\]|(?![ \n\t])[\p{C}\p{Z}]/gu; // and placeholders, as in wire/secret_names.py

export function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export const byId = (id) => document.getElementById(id);

export function harmless(text) {
  return String(text).replace(ODD, "·");
}

// A text as nodes, in which invisible and bidirectional characters are shown as code points, and placeholders of
// secrets are marked.
export function visible(text) {
  const nodes = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(ODD_IN_TEXT)) {
    nodes.append(text.slice(from, found.index), found[0][0] === "[" ? el("span", { class: "redacted", title: "hidden when it was recorded" }, harmless(found[0])) : unseen(found[0]));
    from = found.index + found[0].length;
  }
  nodes.append(text.slice(from));
  return nodes;
}

function unseen(character) {
  const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return el("span", { class: "unseen", title: "a character that is not shown" }, code === "001B" ? "ESC" : `U+${code}`);
}

export function duration(microseconds) {
  if (microseconds === null || microseconds === undefined) return "";
  if (microseconds < 1e3) return `${Math.round(microseconds)} µs`;
  return microseconds < 1e6 ? `${(microseconds / 1e3).toFixed(1)} ms` : `${(microseconds / 1e6).toFixed(2)} s`;
}

export function bytes(size) {
  for (const [unit, one] of [["GB", 1e9], ["MB", 1e6], ["KB", 1e3]]) if (size >= one) return `${(size / one).toFixed(1)} ${unit}`;
  return `${size} B`;
}

export function plural(number, thing) {
  return `${number.toLocaleString("en")} ${thing}${number === 1 ? "" : "s"}`;
}

// A long text in pieces: the first, and a button for each further one.
const PIECE = 50_000;
export function pre(text, from = 0) {
  const box = el("pre", { dir: "ltr" });
  const more = () => {
    box.querySelector("button")?.remove();
    let end = Math.min(text.length, from + PIECE);
    if (/[\ud800-\udbff]/.test(text[end - 1] ?? "")) end++;
    box.append(visible(text.slice(from, end)));
    from = end;
    if (from < text.length) box.append(el("button", { type: "button", onclick: more }, `… show more (${plural(text.length - from, "character")} left)`));
  };
  more();
  return box;
}
