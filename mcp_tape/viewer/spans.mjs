// Positions in time: sessions beside or after each other, and calls as spans.

import { NONE, started } from "./store.mjs";

// When each session begins on the page. Overlapping sessions overlap here, and the time between others is cut out.
// `lasted`: by session, in microseconds. Also returns the positions of the cuts.
export function offsetsOf(sessions, lasted) {
  const known = sessions.filter(({ id }) => lasted.has(id)).map((one) => ({ id: one.id, from: started(one.started_at) }));
  known.sort((a, b) => a.from - b.from || a.id - b.id);
  const [offsets, cuts] = [new Map(), []];
  let [end, zero, until] = [0, NaN, -Infinity]; // end of all; clock time of the page's zero; end of the overlapping ones
  for (const { id, from } of known) {
    if (!(from < until)) {
      if (offsets.size) cuts.push(end);
      zero = from - end;
    }
    const offset = Number.isNaN(from) ? end : from - zero;
    offsets.set(id, offset);
    until = Number.isNaN(from) ? -Infinity : Math.max(from < until ? until : -Infinity, from + lasted.get(id));
    end = Math.max(end, offset + lasted.get(id));
  }
  return { offsets, cuts };
}

// Rows of sessions in the order of time. `runs`: by session, the [first, last] rows that follow each other.
export function merged(runs, offsets, at) {
  const all = [...runs.entries()].sort(([a], [b]) => (offsets.get(a) ?? 0) - (offsets.get(b) ?? 0) || a - b);
  const rows = new Int32Array(all.reduce((sum, [, found]) => found.reduce((count, [first, last]) => count + last - first + 1, sum), 0));
  const times = all.length > 1 ? new Float64Array(at.length) : null;
  let [until, overlap, end] = [-Infinity, false, 0];
  for (const [session, found] of all) {
    const offset = offsets.get(session) ?? 0;
    overlap ||= at[found[0][0]] + offset < until;
    for (const [first, last] of found) {
      for (let row = first; row <= last; row++) {
        rows[end++] = row;
        if (times) times[row] = at[row] + offset;
      }
      until = Math.max(until, at[last] + offset);
    }
  }
  return overlap ? rows.sort((a, b) => times[a] - times[b] || a - b) : rows;
}

export const LANES = ["calls", "server asks", "notices", "stderr", "HTTP", "events"];
const CALL_LANE = 0;
export const ASK_LANE = 1; // the lanes up to this one have spans, the others points

// The lane of a row; NONE for an answer, which ends its request's span.
export function laneOf(store, row) {
  const kind = store.word("kind", row);
  if (kind === "request") return store.columns.client[row] ? CALL_LANE : ASK_LANE;
  if (kind === "response") return NONE;
  if (kind === "notification") return 2;
  if (/^(?:post|get|delete|http)/.test(store.word("channel", row) ?? "")) return 4;
  return store.word("frame", row) === "control" ? 5 : 3;
}

// Spans as columns, in the order of their starts: a call, from its first request to its last answer; a request of the
// server, `under` the call that it belongs to; and points. A request without an answer lasts until it is cancelled or
// its session ends. `deep`: the lane among those of its kind and group; `group`: of its session.
export function layout(store, rows, timeOf, groupOf = () => 0) {
  const { mate, root, caller, session } = store.columns;
  const most = rows.reduce((count, row) => count + (store.word("kind", row) === "response" ? 0 : 1), 0);
  const spans = {
    count: 0, row: new Int32Array(most), lane: new Uint8Array(most), group: new Uint8Array(most), start: new Float64Array(most),
    end: new Float64Array(most), deep: new Int32Array(most), under: new Int32Array(most).fill(NONE), bad: new Uint8Array(most),
    waits: new Uint8Array(most), // whether its last request has no answer
    of: new Int32Array(store.columns.at.length).fill(NONE), // by row of a request, its span
  };
  const wrong = (row) => store.odd(row) || (mate[row] !== NONE && store.odd(mate[row]));
  const endOf = (row) => (mate[row] !== NONE ? timeOf(mate[row]) : timeOf(row) + Math.max(0, store.duration(row)));
  for (const row of rows) {
    const lane = laneOf(store, row);
    if (lane === NONE) continue;
    const asks = lane <= ASK_LANE;
    const first = lane === CALL_LANE && root[row] !== row ? spans.of[root[row]] : NONE;
    const one = first === NONE ? spans.count++ : first;
    if (asks) spans.of[row] = one;
    if (wrong(row)) spans.bad[one] = 1;
    spans.waits[one] = asks && mate[row] === NONE && !store.ends.has(row) ? 1 : 0;
    const end = asks ? endOf(row) : timeOf(row);
    if (first !== NONE) {
      spans.end[one] = Math.max(spans.end[one], end);
      continue;
    }
    [spans.row[one], spans.lane[one], spans.group[one], spans.start[one], spans.end[one]] = [row, lane, groupOf(session[row]), timeOf(row), end];
    if (lane === ASK_LANE && caller[row] !== NONE) spans.under[one] = spans.of[root[caller[row]]];
  }
  for (const name of ["row", "lane", "group", "start", "end", "deep", "under", "bad", "waits"]) spans[name] = spans[name].slice(0, spans.count);
  pack(spans);
  return spans;
}

// Put overlapping spans in lanes of their own: each in the first that is free. Those under another are packed within it.
function pack(spans) {
  const open = new Map();
  for (let one = 0; one < spans.count; one++) {
    if (spans.lane[one] > ASK_LANE) continue;
    const key = spans.under[one] === NONE ? `${spans.group[one]} ${spans.lane[one]}` : `under ${spans.under[one]}`;
    if (!open.has(key)) open.set(key, { ends: new Heap(), free: new Heap(), lanes: 0 });
    const lanes = open.get(key);
    while (lanes.ends.size && lanes.ends.top[0] <= spans.start[one]) lanes.free.push(lanes.ends.pop()[1], 0);
    const deep = lanes.free.size ? lanes.free.pop()[0] : lanes.lanes++;
    spans.deep[one] = deep;
    lanes.ends.push(Math.max(spans.end[one], spans.start[one] + 1), deep);
  }
}

// Pairs of numbers, the smallest on top.
class Heap {
  constructor() {
    this.all = [];
  }

  get size() {
    return this.all.length;
  }

  get top() {
    return this.all[0];
  }

  push(...one) {
    const { all } = this;
    let at = all.push(one) - 1;
    for (let up = (at - 1) >> 1; at > 0 && less(all[at], all[up]); at = up, up = (at - 1) >> 1) [all[at], all[up]] = [all[up], all[at]];
  }

  pop() {
    const { all } = this;
    const found = all[0], last = all.pop();
    if (!all.length) return found;
    all[0] = last;
    for (let at = 0, down; (down = 2 * at + 1) < all.length; at = down) {
      if (down + 1 < all.length && less(all[down + 1], all[down])) down++;
      if (!less(all[down], all[at])) break;
      [all[at], all[down]] = [all[down], all[at]];
    }
    return found;
  }
}

const less = ([a, b], [c, d]) => a < c || (a === c && b < d);
