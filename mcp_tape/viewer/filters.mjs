// The filter grammar of the command line, for rows of the store. mcp_tape/cassette/query/filters.py defines its
// meaning; one table of cases tests both.

import { NONE } from "./store.mjs";

const SPACE = /[\s\x1c-\x1f\x85]/u;
const TERM = /(?<minus>-?)(?:(?<field>[A-Za-z_]+):)?(?<value>"(?:[^"\\]|\\[^])*"(?=[\s\x1c-\x1f\x85]|$)|[^\s\x1c-\x1f\x85"][^\s\x1c-\x1f\x85]*|)/uy;
const NUMBER = /^(\d+(?:\.\d+)?)([a-zA-Zµμ]*)$/u;
const MOST_CHARACTERS = 10_000;
const FAILED = ["error", "tool-error", "refused"];
export const STATUSES = {
  ok: ["ok"], error: FAILED, "rpc-error": ["error"], "tool-error": ["tool-error"], refused: ["refused"],
  "input-required": ["input-required"], retry: ["retry"], cancelled: ["cancelled"], unanswered: ["unanswered"],
};
const OF_MESSAGES = ["request", "response", "notification"];
const OF_FRAMES = ["batch", "noise", "stderr", "control"];
export const KINDS = [...OF_MESSAGES, "message", ...OF_FRAMES];
const DURATIONS = { "": 1e3, us: 1, "µs": 1, "μs": 1, ms: 1e3, s: 1e6, m: 6e7 };
const SIZES = { "": 1, b: 1, k: 1e3, kb: 1e3, m: 1e6, mb: 1e6, g: 1e9, gb: 1e9 };
const MOST = 2 ** 62;
const AHEAD = 4; // blocks to open ahead of the one being searched

export class FilterError extends Error {
  constructor(message, position) {
    super(message);
    this.position = position;
  }
}

// A list of tests: each is {keeps(store, row)}, or with `text`, {keeps(text)}; `minus` inverts it.
export function parse(text) {
  if ([...text].length > MOST_CHARACTERS) throw new FilterError(`longer than ${MOST_CHARACTERS} characters`, MOST_CHARACTERS);
  const terms = [];
  let at = skip(text, 0);
  while (at < text.length) {
    TERM.lastIndex = at;
    const found = TERM.exec(text);
    const { minus, field, value } = found.groups;
    const behind = found.index + minus.length + (field === undefined ? 0 : field.length + 1);
    if (!value) throw noValue(text, behind, field);
    terms.push({ ...condition(field, value, found.index + minus.length, behind), minus: minus !== "" });
    at = skip(text, found.index + found[0].length);
  }
  return terms;
}

function skip(text, at) {
  while (at < text.length && SPACE.test(text[at])) at++;
  return at;
}

function noValue(text, at, field) {
  if (text[at] === '"') return new FilterError("a quoted text must be closed, and a space must follow it", at);
  return new FilterError(field ? `${field}: needs a value` : "- needs something to leave out", at);
}

function condition(field, value, start, at) {
  const make = FIELDS[(field ?? "").toLowerCase()];
  if (!Object.hasOwn(FIELDS, (field ?? "").toLowerCase())) {
    const known = Object.keys(FIELDS).filter(Boolean).join(", ");
    throw new FilterError(`there is no field '${field.toLowerCase()}'; there are ${known}. To find it as text, put it in quotes`, start);
  }
  if (value.startsWith('"')) value = value.slice(1, -1).replace(/\\([^])/gu, "$1");
  if (!value) throw new FilterError("the quotes are empty", at);
  if (!value.isWellFormed()) throw new FilterError("this is not UTF-8", at);
  return make(value, at);
}

// A to Z only, as in SQLite's lower().
const lower = (text) => (/[A-Z]/.test(text) ? text.replace(/[A-Z]+/g, (found) => found.toLowerCase()) : text);
const ESCAPES = { '"': '\\"', "\\": "\\\\", "/": "\\/", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const SHORT = { b: " ", f: " ", n: "\n", r: "\r", t: "\t" };

function words(value) {
  const wanted = lower(value);
  const anyCase = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&").replace(/[a-z]/g, (c) => `[${c}${c.toUpperCase()}]`));
  const hints = new Set([/^[\0-\x7f]*$/.test(value) ? "\\u00" : "\\u", ...[...value].map((c) => ESCAPES[c]).filter(Boolean)]);
  return {
    text: true,
    keeps: (text) => anyCase.test(text) || ([...hints].some((hint) => text.includes(hint)) && lower(readable(text)).includes(wanted)),
  };
}

function readable(text) {
  const once = unescaped(text);
  const twice = unescaped(once);
  return once === twice ? once : `${once}\n${twice}`;
}

function unescaped(text) {
  if (!text.includes("\\")) return text;
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|([^]))/g, (_, code, short) => (code ? String.fromCharCode(parseInt(code, 16)) : SHORT[short] ?? short));
}

// A condition on a word, in which * matches anything; without backtracking, because the word is untrusted.
function like(name) {
  return (value) => {
    const parts = value.split(/\*+/);
    const memory = new Map();
    const fits = (text) => {
      if (parts.length === 1) return text === value;
      const [first, last] = [parts[0], parts.at(-1)];
      if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) return false;
      let at = first.length;
      for (const part of parts.slice(1, -1)) {
        at = text.indexOf(part, at);
        if (at < 0) return false;
        at += part.length;
      }
      return at <= text.length - last.length;
    };
    return {
      keeps: (store, row) => {
        const word = store.columns[name][row];
        if (word === NONE) return false;
        if (!memory.has(word)) memory.set(word, fits(store.words[word]));
        return memory.get(word);
      },
    };
  };
}

function ofId(value) {
  const meant = [value, JSON.stringify(value)];
  return {
    keeps: (store, row) => meant.includes(store.id(row) ?? (store.columns.mate[row] === NONE ? null : store.id(store.columns.mate[row]))),
  };
}

function among(value, at, field, known) {
  if (!known.includes(value)) throw new FilterError(`${field}: takes ${known.join(", ")}`, at);
}

function from(value, at) {
  among(value, at, "from", ["client", "server"]);
  return { keeps: (store, row) => store.columns.client[row] === (value === "client" ? 1 : 0) };
}

function kind(value, at) {
  among(value, at, "kind", KINDS);
  if (value === "message") return { keeps: (store, row) => store.columns.kind[row] !== NONE };
  return { keeps: (store, row) => store.word(OF_MESSAGES.includes(value) ? "kind" : "frame", row) === value };
}

function status(value, at) {
  among(value, at, "status", Object.keys(STATUSES));
  return { keeps: (store, row) => STATUSES[value].includes(store.status(row)) };
}

function measure(name, units, example) {
  const number = (text, at) => {
    const found = NUMBER.exec(text);
    const key = found?.[2].toLowerCase();
    const unit = found && Object.hasOwn(units, key) ? units[key] : undefined;
    if (unit === undefined || (unit === 1 && text.includes("."))) {
      const names = Object.keys(units).filter(Boolean);
      const named = names.length ? `, with ${names.join(", ")}` : "";
      throw new FilterError(`${quoted(text)} is not a number${named}; write e.g. ${example}`, at);
    }
    return [Math.round(Math.min(Number(found[1]) * unit, MOST)), unit];
  };
  const compare = { ">=": (a, b) => a >= b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, "<": (a, b) => a < b };
  const on = (test) => ({ keeps: (store, row) => test(store.columns[name][row]) }); // of no number, NaN, no test is true
  return (value, at) => {
    const sign = /^(?:>=|<=|>|<)/.exec(value)?.[0];
    if (sign) {
      const [limit] = number(value.slice(sign.length), at + sign.length);
      return on((found) => compare[sign](found, limit));
    }
    const dots = value.indexOf("..");
    if (dots >= 0 && value.length > 2) {
      const low = dots ? number(value.slice(0, dots), at)[0] : -MOST;
      const high = dots + 2 < value.length ? number(value.slice(dots + 2), at + dots + 2)[0] : MOST;
      return on((found) => found >= low && found <= high);
    }
    const [exact, unit] = number(value, at);
    return on((found) => found >= exact && found < exact + unit);
  };
}

// As in Python's repr(), for text that people type.
const quoted = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replace(/['\\]/g, "\\$&")}'`);

export const FIELDS = {
  method: like("method"),
  tool: like("name"),
  id: ofId,
  from,
  kind,
  status,
  dur: measure("took", DURATIONS, "dur:>50, dur:1s.. or dur:10..200"),
  size: measure("size", SIZES, "size:>10k, size:..2M or size:100..200"),
  session: measure("session", { "": 1 }, "session:2, session:>3 or session:1..4"),
  "": words,
};

// The rows that all terms keep. Columns are tested first; texts only of the rows that remain.
export function rowsByColumns(store, terms, rows) {
  const tests = terms.filter((term) => !term.text);
  return tests.length ? rows.filter((row) => tests.every((term) => term.keeps(store, row) !== term.minus)) : rows;
}

export async function rowsByTexts(store, terms, rows, goesOn, progress) {
  const tests = terms.filter((term) => term.text);
  if (!tests.length) return rows;
  const inBlocks = rows.every((row, at) => !at || rows[at - 1] < row) ? rows : rows.slice().sort(); // merged by time
  const found = new Uint8Array(store.count);
  for (let at = 0; at < inBlocks.length; ) {
    const number = store.blockOf(inBlocks[at]);
    for (let ahead = number + 1; ahead < Math.min(store.starts.length, number + AHEAD); ahead++) store.block(ahead);
    const opened = store.block(number);
    const block = opened instanceof Promise ? await opened : opened;
    if (!goesOn()) return null;
    const end = store.starts[number + 1] ?? Infinity;
    for (; at < inBlocks.length && inBlocks[at] < end; at++) {
      const text = store.decode(inBlocks[at], block.text(inBlocks[at]));
      if (tests.every((term) => term.keeps(text) !== term.minus)) found[inBlocks[at]] = 1;
    }
    progress(at / inBlocks.length);
  }
  return rows.filter((row) => found[row]);
}
