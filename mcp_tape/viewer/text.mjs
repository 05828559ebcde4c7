// Untrusted texts in a safe form, and elements made without markup.

// Characters that change how a text is read and that nobody sees: those outside Python's str.isprintable(), letters
// without a shape, and selectors of variants. Emoji, scripts that need joiners, and variants of Han are whole; what is
// invisible elsewhere is odd: https://www.rfc-editor.org/rfc/rfc5892#appendix-A.1
const FLAGS_OF_LANDS = "\\u{1f3f4}\\u{e0067}\\u{e0062}(?:\\u{e0065}\\u{e006e}\\u{e0067}|\\u{e0073}\\u{e0063}\\u{e0074}|\\u{e0077}\\u{e006c}\\u{e0073})\\u{e007f}";
const CURSIVE = "[\\p{scx=Arab}\\p{scx=Syrc}\\p{scx=Mong}\\p{scx=Nko}]";
const INDIC = "[\\p{scx=Deva}\\p{scx=Beng}\\p{scx=Guru}\\p{scx=Gujr}\\p{scx=Orya}\\p{scx=Taml}\\p{scx=Telu}\\p{scx=Knda}\\p{scx=Mlym}\\p{scx=Sinh}\\p{scx=Khmr}\\p{scx=Mymr}]";
const VIRAMA = "[\\u094d\\u09cd\\u0a4d\\u0acd\\u0b4d\\u0bcd\\u0c4d\\u0ccd\\u0d4d\\u0dca\\u1039\\u103a\\u17d2]";
const JOINER = [
  "(?<=\\p{Extended_Pictographic}[\\ufe0f\\u{1f3fb}-\\u{1f3ff}]?)\\u200d(?=\\p{Extended_Pictographic})",
  `(?<=(?=${CURSIVE})[\\p{L}\\p{M}])\\u200d|\\u200d(?=(?=${CURSIVE})\\p{L})`, // gives a letter its shape
  `(?<=(?=${CURSIVE})[\\p{L}\\p{M}])\\u200c(?=(?=${CURSIVE})\\p{L})`,
  `(?<=${VIRAMA})[\\u200c\\u200d]|(?<=(?=${INDIC})[\\p{L}\\p{M}])[\\u200c\\u200d](?=(?=${INDIC})\\p{L})`,
].join("|");
const SELECTOR = "(?<=\\p{Extended_Pictographic})[\\ufe0e\\ufe0f]|(?<=[0-9#*])\\ufe0f(?=\\u20e3)|(?<=\\p{Script=Han})[\\ufe00-\\ufe02\\u{e0100}-\\u{e01ef}]";
const UNSEEN = "[\\p{C}\\p{Z}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]";
const odd = (...fine) => `${FLAGS_OF_LANDS}|(?!${[...fine, JOINER, SELECTOR].join("|")})${UNSEEN}`;
const ODD = new RegExp(odd("\\p{Zs}"), "gu");
const ODD_IN_TEXT = new RegExp(`\\[redacted:[^\\]\\r\\n]{0,200}\\]|${odd("[ \\n\\t]")}`, "gu"); // and placeholders, as in wire/secret_names.py
const WIDE = /^\p{Zs}$/u; // a space, though not the usual one
const FLAG = "\u{1f3f4}";

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
  return String(text).replace(ODD, (found) => (found.startsWith(FLAG) ? found : "·"));
}

// A text as nodes, in which invisible and bidirectional characters are shown as code points, and placeholders of
// secrets are marked.
export function visible(text) {
  const nodes = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(ODD_IN_TEXT)) {
    if (found[0].startsWith(FLAG)) continue;
    nodes.append(text.slice(from, found.index), found[0][0] === "[" ? el("span", { class: "redacted", title: "hidden when it was recorded" }, harmless(found[0])) : unseen(found[0]));
    from = found.index + found[0].length;
  }
  nodes.append(text.slice(from));
  return nodes;
}

function unseen(character) {
  const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  if (WIDE.test(character)) return el("span", { class: "space", title: `U+${code}` }, character);
  return el("span", { class: "unseen", title: "a character that is not shown" }, code === "001B" ? "ESC" : `U+${code}`);
}

export function duration(microseconds) {
  if (!Number.isFinite(microseconds ?? NaN)) return "";
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
