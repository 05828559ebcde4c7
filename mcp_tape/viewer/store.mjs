// The recording: its index as columns, and its texts, in blocks that are opened when they are looked at.

import { byId } from "./text.mjs";

export const FLAGS = { odd: 1, dim: 2, plumbing: 4, bytes: 8 };
const LONGEST_LINE = 160, WITHIN = 400; // characters of a line, and in which one is found; as in pack.py
const KEPT = 64 << 20; // characters of opened blocks

export function decoded(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found;
}

async function inflated(data) {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await new Response(stream).arrayBuffer());
}

// Texts of some rows, and the line of each.
class Block {
  constructor(whole, size) {
    const behind = whole.indexOf("\n");
    const { sizes, lines } = JSON.parse(whole.slice(0, behind));
    Object.assign(this, { whole, lines, starts: [behind + 1] });
    lines.forEach((_, at) => this.starts.push(this.starts[at] + (sizes[at] ?? size(at))));
  }

  text(at) {
    return this.whole.slice(this.starts[at], this.starts[at + 1]);
  }

  line(at) {
    const line = this.lines[at];
    if (typeof line === "string") return line;
    const [start, length, spaced] = typeof line === "number" ? [line, LONGEST_LINE] : line;
    const first = this.starts[at] + start;
    if (!spaced) return this.whole.slice(first, first + length);
    // JSON without the white space between its parts, as pack.py has it.
    return this.whole.slice(first, Math.min(this.starts[at + 1], first + WITHIN)).replace(/("(?:[^"\\]|\\[^])*"?)|[ \n\r\t]+/g, "$1").slice(0, length);
  }
}

// Rows are numbers: columns[name][row].
export class Store {
  constructor() {
    this.count = 0;
    this.sessions = new Map();
    this.words = [];
    this.columns = {};
    this.starts = []; // the first row of each block
    this.opened = new Map();
    this.size = 0;
    this.lastId = 0;
    this.places = new Map(); // "session.seq" → its first row
    this.mates = []; // of a request its answer, and of an answer its request
    this.read = (number) => decoded(document.getElementsByClassName("block")[number].textContent);
  }

  // Whether the page has its recording within it. One that is served asks for it.
  async open() {
    const found = byId("index");
    if (found) this.add(JSON.parse(await inflated(decoded(found.textContent))));
    else this.read = async (number) => (await fetch(`block/${number}`)).arrayBuffer();
    return found !== null;
  }

  add(index) {
    Object.assign(this, { file: index.file ?? this.file, by: index.by ?? this.by, filtered: index.filtered ?? this.filtered });
    for (const session of index.sessions) this.sessions.set(session.id, session);
    for (const word of index.words) this.words.push(word);
    const first = this.count;
    for (const [name, values] of Object.entries(index.rows)) {
      const column = (this.columns[name] ??= []);
      for (let i = 0; i < values.length; i++) column.push(values[i]);
    }
    const { seq, at, session, answers, id } = this.columns;
    this.count = seq?.length ?? 0;
    for (let row = first; row < this.count; row++) {
      if (row) {
        seq[row] += seq[row - 1];
        at[row] += at[row - 1];
      }
      if (typeof id[row] === "number") id[row] = String((this.lastId += id[row]));
      const place = `${session[row]}.${seq[row]}`;
      if (!this.places.has(place)) this.places.set(place, row);
      this.mates.push(null);
      if (answers[row] !== null) this.pair(row);
    }
    for (const request of index.withdrawn ?? []) this.withdraw(...request);
    let start = this.starts.length ? this.end : first;
    for (const rows of index.blocks) {
      this.starts.push(start);
      start += rows;
    }
    this.end = start;
    return first;
  }

  // A request learns from its answer how it ended.
  pair(row) {
    const { session, seq, answers, id, client, status, took, at } = this.columns;
    let request = this.places.get(`${session[row]}.${seq[row] - answers[row]}`);
    if (request === undefined) return;
    const number = seq[request];
    for (let i = request; i < row && seq[i] === number; i++) {
      if (id[i] === id[row] && client[i] !== client[row]) request = i;
    }
    this.mates[row] = request;
    this.mates[request] = row;
    status[request] = status[row];
    took[request] = took[row] = at[row] - at[request];
  }

  // A request learns from a later message that it was cancelled.
  withdraw(number, place, part, word) {
    const { session, seq, status, part: parts } = this.columns;
    for (let row = this.places.get(`${number}.${place}`) ?? this.count; session[row] === number && seq[row] === place; row++) {
      if ((parts[row] ?? 0) === part && this.mates[row] === null) status[row] = word;
    }
  }

  word(name, row) {
    const number = this.columns[name][row];
    return number === null ? null : this.words[number];
  }

  // Words for a row, as `mcp-tape show` has them.
  what(row) {
    const said = this.word("what", row);
    if (said !== null) return said;
    const answer = this.word("kind", row) === "response";
    return [this.word("method", row) ?? (answer ? "?" : ""), this.word("name", row)].filter(Boolean).join(" ");
  }

  status(row) {
    const status = this.word("status", row);
    return status === "unanswered" && this.sessions.get(this.columns.session[row])?.open ? null : status;
  }

  odd(row) {
    if (this.word("kind", row) === "request") return this.status(row) === "unanswered";
    return (this.columns.flags[row] & FLAGS.odd) !== 0;
  }

  is(flag, row) {
    return (this.columns.flags[row] & FLAGS[flag]) !== 0;
  }

  exchange(row) {
    const { exchange, seq } = this.columns;
    return exchange[row] === null ? null : seq[row] - exchange[row];
  }

  blockOf(row) {
    let low = 0, high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // A block where it is open, else a promise of it.
  block(number) {
    const found = this.opened.get(number);
    if (found) {
      this.opened.delete(number);
      this.opened.set(number, found); // the newest is the last
      return found.block ?? found.promise;
    }
    const entry = { block: null, promise: null };
    entry.promise = Promise.resolve(this.read(number)).then(inflated).then((whole) => {
      entry.block = new Block(whole, (at) => this.columns.size[this.starts[number] + at]);
      this.size += whole.length;
      this.forget(number);
      return entry.block;
    });
    this.opened.set(number, entry);
    return entry.promise;
  }

  // Close blocks that were not looked at for longest, but for one.
  forget(but) {
    for (const [number, { block }] of this.opened) {
      if (this.size <= KEPT) return;
      if (number === but || !block) continue;
      this.opened.delete(number);
      this.size -= block.whole.length;
    }
  }

  // The line of a row, or a promise of it.
  line(row) {
    const number = this.blockOf(row);
    const found = this.block(number);
    const line = (block) => block.line(row - this.starts[number]);
    return found instanceof Promise ? found.then(line) : line(found);
  }

  // The text of a row as it is in its block.
  async stored(row) {
    const number = this.blockOf(row);
    return (await this.block(number)).text(row - this.starts[number]);
  }

  async text(row) {
    return this.decode(row, await this.stored(row));
  }

  decode(row, text) {
    return this.is("bytes", row) ? new TextDecoder().decode(decoded(text)) : text;
  }
}
