// The recording: its index as columns, and its texts in blocks that are opened on demand.

import { byId } from "./text.mjs";
import { Block, decoded, inflated, unpacked, utf8 } from "./packed.mjs";

export const FLAGS = { odd: 1, dim: 2, plumbing: 4, bytes: 8, redacted: 16 };
const KEPT = 64 << 20; // characters in open blocks

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
    this.files = [];
    this.findings = [];
    this.places = new Map(); // "session.seq" → its first row
    this.mates = []; // of a request its answer, and of an answer its request
    this.later = new Map(); // by first request, the requests that continue it
    this.read = (number) => decoded(document.getElementsByClassName("block")[number].textContent);
  }

  // Read the recording in the page; return whether there is one. A served page asks its server instead.
  async open() {
    const found = byId("index");
    if (found) this.add(unpacked(await inflated(decoded(found.textContent))));
    else this.read = async (number) => (await fetch(`block/${number}`)).arrayBuffer();
    return found !== null;
  }

  add(index) {
    for (const name of ["files", "by", "filtered", "findings", "compared"]) this[name] = index[name] ?? this[name];
    for (const session of index.sessions) this.sessions.set(session.id, session);
    for (const word of index.words) this.words.push(word);
    const first = this.count;
    for (const [name, values] of Object.entries(index.columns)) {
      const column = (this.columns[name] ??= []);
      for (let i = 0; i < values.length; i++) column.push(values[i]);
    }
    const { seq, at, session, answers, id } = this.columns;
    this.count = seq.length;
    for (const [row, text] of Object.entries(index.ids)) id[first + Number(row)] = text;
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
      const root = this.root(row);
      if (root !== row) this.later.has(root) ? this.later.get(root).push(row) : this.later.set(root, [row]);
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

  // Copy an answer's status and duration to its request.
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

  // Set the status of a request that a later message cancelled.
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

  // Words for a row, as in `mcp-tape show`.
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

  // The name of the file, or of several.
  get file() {
    if (this.compared) return [...new Set(this.files)].join(" → ");
    return this.files.length > 2 ? `${this.files[0]} and ${this.files.length - 1} more` : this.files.join(", ");
  }

  // The file of a session, and its number there.
  origin(session) {
    const facts = this.sessions.get(session);
    return { file: facts?.file ?? this.file, number: facts?.number ?? session };
  }

  // The request that was in progress when a row arrived; null if it belongs to none.
  caller(row) {
    const { session } = this.columns;
    const seq = this.exchange(row);
    return seq === null ? null : (this.places.get(`${session[row]}.${seq}`) ?? null);
  }

  // The first request of the call that a request continues, by rounds or by polls; or the request itself.
  root(row) {
    if (row === null || this.columns.span[row] === null) return row;
    const { session, seq, span } = this.columns;
    return this.places.get(`${session[row]}.${seq[row] - span[row]}`) ?? row;
  }

  // All requests of a request's call.
  work(row) {
    const root = this.root(row);
    return [root, ...(this.later.get(root) ?? [])];
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

  // An open block, or a promise of it.
  block(number) {
    const found = this.opened.get(number);
    if (found) {
      this.opened.delete(number);
      this.opened.set(number, found); // the newest is the last
      return found.block ?? found.promise;
    }
    const entry = { block: null, promise: null };
    entry.promise = Promise.resolve(this.read(number)).then(inflated).then((data) => {
      const whole = utf8(data);
      const first = this.starts[number];
      entry.block = new Block(whole, this, first, (this.starts[number + 1] ?? this.end) - first);
      this.size += whole.length;
      this.forget(number);
      return entry.block;
    });
    this.opened.set(number, entry);
    return entry.promise;
  }

  // Close the least recently used blocks, except one.
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
    const line = (block) => block.line(row);
    return found instanceof Promise ? found.then(line) : line(found);
  }

  // The text of a row as stored in its block.
  async stored(row) {
    const number = this.blockOf(row);
    return (await this.block(number)).text(row);
  }

  async text(row) {
    return this.decode(row, await this.stored(row));
  }

  decode(row, text) {
    return this.is("bytes", row) ? new TextDecoder().decode(decoded(text)) : text;
  }
}
