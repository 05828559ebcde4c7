// The recording: its index as columns, the calls that its rows belong to, and its texts in blocks that are opened on
// demand.

import { byId } from "./text.mjs";
import { Block, decoded, inflated, unpacked, utf8 } from "./packed.mjs";

// Microseconds since 1970, by the clock of the recorder; NaN if unknown.
export function started(text) {
  const [, digits = ""] = /\.(\d+)/.exec(text ?? "") ?? [];
  return Date.parse(text ?? "") * 1e3 + Number(digits.padEnd(6, "0").slice(3, 6));
}

export const FLAGS = { odd: 1, dim: 2, plumbing: 4, bytes: 8, redacted: 16 };
export const NONE = -1; // in columns of rows and of words
const BEFORE = 2; // rows of a call before its request: the events of its HTTP request
const KEPT = 8 << 20; // characters in open blocks, which take a few times as much memory
const CANCELLED = "notifications/cancelled", LISTEN = "subscriptions/listen";
const FEW = 32_767; // words: their numbers take two bytes, and four when there are more
// Columns of numbers: they take a tenth of the memory of objects. The last five are rows: `mate`, of a request its answer
// and of an answer its request; `caller`, the request in progress when the row arrived; `root`, the first request of a
// call, by rounds or polls; `call`, the root of the call that the row belongs to; `last`, of a root the last row of its
// call.
const COLUMNS = {
  session: Int32Array, seq: Int32Array, part: Int32Array, at: Float64Array, client: Uint8Array, kind: Int16Array, frame: Int16Array,
  channel: Int16Array, method: Int16Array, name: Int16Array, id: Float64Array, status: Int16Array, took: Float64Array, size: Uint32Array,
  what: Int16Array, flags: Uint8Array, mate: Int32Array, caller: Int32Array, root: Int32Array, call: Int32Array, last: Int32Array,
};

// Rows are numbers: columns[name][row].
export class Store {
  constructor() {
    this.count = this.room = this.version = 0;
    this.sessions = new Map();
    this.words = [];
    this.columns = Object.fromEntries(Object.entries(COLUMNS).map(([name, kind]) => [name, new kind(0)]));
    this.starts = []; // the first row of each block
    this.opened = new Map();
    this.size = 0;
    this.lastId = 0;
    this.lastSeq = this.lastAt = 0;
    this.files = [];
    this.findings = [];
    this.ids = new Map(); // by row, the ids that are not numbers
    this.runs = new Map(); // by session, [first, last] rows that follow each other
    this.lasted = new Map(); // by session, the time of its last row
    this.open = new Map(); // by session, the calls in progress; the newest is the last
    this.posts = new Map(); // by session and HTTP channel, its call
    this.later = new Map(); // by root, the requests that continue it
    this.ends = new Map(); // by cancelled request, the row that cancels it
    this.read = async (number) => utf8(await inflated(decoded(document.getElementsByClassName("block")[number].textContent)));
  }

  // Read the recording in the page; return whether there is one. A served page asks its server instead.
  async load() {
    const found = byId("index");
    if (found) this.add(unpacked(await inflated(decoded(found.textContent))));
    else this.read = async (number) => {
      const bytes = await (await fetch(`block/${number}`)).arrayBuffer(); // inflated by the browser
      const text = utf8(bytes);
      bytes.transfer?.(0); // frees it at once: a search opens every block
      return text;
    };
    return found !== null;
  }

  // Make room for this many rows.
  expect(count) {
    if (count <= this.room) return;
    this.room = count;
    for (const name of Object.keys(COLUMNS)) this.renew(name, this.columns[name].constructor);
  }

  // Copy a column into another that has room, with numbers of this kind.
  renew(name, kind) {
    const column = new kind(this.room);
    column.set(this.columns[name].subarray(0, this.count));
    this.columns[name] = column;
  }

  add(index) {
    this.version++;
    for (const name of ["files", "by", "filtered", "findings", "compared"]) this[name] = index[name] ?? this[name];
    for (const session of index.sessions) this.sessions.set(session.id, session);
    for (const word of index.words) this.words.push(word);
    if (this.words.length > FEW) for (const [name, { constructor }] of Object.entries(this.columns)) if (constructor === Int16Array) this.renew(name, Int32Array);
    const first = this.count, { rows } = index;
    if (first + rows > this.room) this.expect(Math.max(first + rows, Math.ceil(this.room * 1.5)));
    const { columns } = this;
    for (const name of ["session", "client", "size", "flags", "took"]) columns[name].set(index.columns[name], first);
    for (const name of ["part", "kind", "frame", "channel", "method", "name", "status", "what"]) {
      const column = columns[name], given = index.columns[name];
      for (let at = 0; at < rows; at++) column[first + at] = given[at] === given[at] ? given[at] : NONE; // NaN is not itself
    }
    const { seq, at: times, id, answers, exchange, span } = index.columns;
    for (const [at, text] of Object.entries(index.ids)) this.ids.set(first + Number(at), text);
    for (let at = 0, row = first; at < rows; at++, row++) {
      columns.seq[row] = this.lastSeq += seq[at];
      columns.at[row] = this.lastAt += times[at];
      columns.id[row] = id[at] === id[at] ? (this.lastId += id[at]) : NaN;
      this.count = row + 1;
      this.place(row);
      this.relate(row, answers[at], exchange[at], span[at]);
    }
    for (const request of index.withdrawn ?? []) this.withdraw(...request);
    let start = this.starts.length ? this.end : first;
    for (const size of index.blocks) {
      this.starts.push(start);
      start += size;
    }
    this.end = start;
    return first;
  }

  place(row) {
    const { session, at } = this.columns;
    const number = session[row];
    if (!this.runs.has(number)) this.runs.set(number, []);
    const runs = this.runs.get(number), last = runs.at(-1);
    if (last?.[1] === row - 1) last[1] = row;
    else runs.push([row, row]);
    this.lasted.set(number, Math.max(this.lasted.get(number) ?? 0, at[row]));
  }

  // The first row of a frame; NONE without one.
  rowOf(session, number) {
    const { seq } = this.columns;
    const search = (low, high, is) => {
      while (low < high) {
        const middle = (low + high) >> 1;
        if (is(middle)) high = middle;
        else low = middle + 1;
      }
      return low;
    };
    const runs = this.runs.get(session) ?? [];
    const run = runs[search(0, runs.length, (at) => seq[runs[at][1]] >= number)];
    if (!run) return NONE;
    const row = search(run[0], run[1], (at) => seq[at] >= number);
    return seq[row] === number ? row : NONE;
  }

  // Find the rows that a row belongs to; numbers are distances to frames.
  relate(row, answers, exchange, span) {
    const { session, seq, client, mate, caller, root, call, last } = this.columns;
    const number = session[row];
    const before = (distance) => (distance === distance ? this.rowOf(number, seq[row] - distance) : NONE);
    mate[row] = NONE;
    caller[row] = before(exchange);
    const earlier = before(span);
    root[row] = earlier === NONE ? row : root[earlier];
    call[row] = NONE;
    if (earlier !== NONE) this.later.has(root[row]) ? this.later.get(root[row]).push(row) : this.later.set(root[row], [row]);
    const kind = this.word("kind", row);
    if (answers === answers) this.pair(row, before(answers));
    last[row] = row;
    this.join(row, number, kind, client[row] === 1);
    if (call[row] !== NONE) last[call[row]] = row;
  }

  // Copy an answer's status and duration to its request.
  pair(row, request) {
    if (request === NONE) return;
    const { seq, client, mate, status, took, at } = this.columns;
    const number = seq[request];
    for (let one = request; one < row && seq[one] === number; one++) {
      if (this.id(one) === this.id(row) && client[one] !== client[row]) request = one;
    }
    mate[row] = request;
    mate[request] = row;
    status[request] = status[row];
    took[request] = took[row] = at[row] - at[request];
  }

  // Find the call of a row. What names no call belongs to the newest one in progress, as stderr does, or to that of its
  // HTTP stream.
  join(row, number, kind, fromClient) {
    const { mate, caller, root, call, channel } = this.columns;
    if (!this.open.has(number)) this.open.set(number, []);
    const open = this.open.get(number);
    const stream = /^(?:post|get|delete|http)/.test(this.word("channel", row) ?? "") ? `${number} ${channel[row]}` : null;
    const close = (one) => open.includes(one) && open.splice(open.lastIndexOf(one), 1);
    if (kind === "request" && (fromClient || caller[row] === NONE)) {
      call[row] = root[row];
      if (fromClient && this.word("method", row) !== LISTEN) open.push(row);
      if (stream && !this.posts.has(stream)) {
        this.posts.set(stream, root[row]);
        for (let one = row - 1; one >= 0 && channel[one] === channel[row] && call[one] === NONE && this.columns.session[one] === number; one--) call[one] = root[row];
      }
    } else if (kind === "response" && mate[row] !== NONE) {
      call[row] = call[mate[row]];
      close(mate[row]);
    } else if (caller[row] !== NONE) {
      call[row] = call[caller[row]];
      if (kind === "notification" && this.word("method", row) === CANCELLED) {
        this.ends.set(caller[row], row);
        close(caller[row]);
      }
    } else if (stream) call[row] = this.posts.get(stream) ?? NONE;
    else if (kind === null && this.word("frame", row) !== "control" && open.length) call[row] = call[open.at(-1)];
  }

  // Set the status of a request that a later message cancelled.
  withdraw(number, place, part, word) {
    const { session, seq, status, part: parts, mate } = this.columns;
    const first = this.rowOf(number, place);
    for (let row = first; row !== NONE && row < this.count && session[row] === number && seq[row] === place; row++) {
      if (Math.max(0, parts[row]) === part && mate[row] === NONE) status[row] = word;
    }
  }

  word(name, row) {
    const number = this.columns[name][row];
    return number === NONE ? null : this.words[number];
  }

  // The id of a message as JSON; null without one.
  id(row) {
    const number = this.columns.id[row];
    return number === number ? String(number) : (this.ids.get(row) ?? null);
  }

  // Words for a row, as in `mcp-tape show`.
  what(row) {
    const words = this.word("what", row);
    if (words !== null) return words;
    const answer = this.word("kind", row) === "response";
    return [this.word("method", row) ?? (answer ? "?" : ""), this.word("name", row)].filter(Boolean).join(" ");
  }

  status(row) {
    const status = this.word("status", row);
    return status === "unanswered" && this.isOpen(row) ? null : status;
  }

  // Whether the row's session is still being recorded.
  isOpen(row) {
    return this.sessions.get(this.columns.session[row])?.open ?? false;
  }

  // Whether a row needs attention.
  odd(row) {
    if (this.word("kind", row) === "request") return this.status(row) === "unanswered";
    return (this.columns.flags[row] & FLAGS.odd) !== 0;
  }

  // Whether a call needs attention: one of its requests has failed or was not answered.
  failed(root) {
    const { mate } = this.columns;
    return this.work(root).some((row) => this.odd(row) || (mate[row] !== NONE && this.odd(mate[row])));
  }

  is(flag, row) {
    return (this.columns.flags[row] & FLAGS[flag]) !== 0;
  }

  // How long a request took in microseconds. An unanswered one takes until it is cancelled or its session ends.
  duration(row) {
    const { took, at, session } = this.columns;
    if (took[row] === took[row]) return took[row];
    return (this.ends.has(row) ? at[this.ends.get(row)] : (this.lasted.get(session[row]) ?? 0)) - at[row];
  }

  // Let sessions that go on last until now, by the clock of the browser; return whether a call waits in one of them.
  age(now) {
    let waits = false;
    for (const { id, open, started_at: began } of this.sessions.values()) {
      const until = now - started(began);
      if (!open || !this.open.get(id)?.length || !(until > this.lasted.get(id))) continue;
      this.lasted.set(id, until);
      waits = true;
    }
    this.version += waits ? 1 : 0;
    return waits;
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

  // All requests of a call, by its root.
  work(root) {
    const later = this.later.get(root);
    return later ? [root, ...later] : [root];
  }

  // What belongs to a call besides its root: its other messages, and the stderr in between, in order.
  *parts(root) {
    const { call, last } = this.columns;
    for (let row = Math.max(0, root - BEFORE); row <= last[root]; row++) if (call[row] === root && row !== root) yield row;
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
    entry.promise = this.read(number).then((whole) => {
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
