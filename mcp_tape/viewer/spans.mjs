// Positions in time: sessions beside or after each other, and calls as spans.

const DEEP = 8; // levels of overlapping calls

// Microseconds since 1970, by the clock of the recorder; NaN if unknown.
export function started(text) {
  const [, digits = ""] = /\.(\d+)/.exec(text ?? "") ?? [];
  return Date.parse(text ?? "") * 1e3 + Number(digits.padEnd(6, "0").slice(3, 6));
}

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

// Rows in the order of time. They arrive session by session, each in its order.
export function merged(bySession, offsets, at) {
  const all = [...bySession.entries()].sort(([a], [b]) => (offsets.get(a) ?? 0) - (offsets.get(b) ?? 0) || a - b);
  const rows = all.flatMap(([, found]) => found);
  const time = (row, session) => at[row] + (offsets.get(session) ?? 0);
  let [until, overlap] = [-Infinity, false];
  for (const [session, found] of all) {
    if (!found.length) continue;
    overlap ||= time(found[0], session) < until;
    until = Math.max(until, time(found.at(-1), session));
  }
  if (!overlap) return rows;
  const times = new Map(all.flatMap(([session, found]) => found.map((row) => [row, time(row, session)])));
  return rows.sort((a, b) => times.get(a) - times.get(b) || a - b);
}

export const LANES = ["calls", "server asks", "notices", "stderr", "HTTP", "events"];

// The lane of a row; null for an answer, which ends its request's span.
export function laneOf(store, row) {
  const kind = store.word("kind", row);
  if (kind === "request") return store.columns.client[row] ? 0 : 1;
  if (kind === "response") return null;
  if (kind === "notification") return 2;
  if (store.word("frame", row) !== "control") return 3;
  return /^(?:post|get|delete|http)/.test(store.word("channel", row) ?? "") ? 4 : 5;
}

// Spans of rows: a call from its request to its answer, with its rounds if it has several, server requests below the
// call that they belong to, and points. `deep`: the number of calls above this one; `under`: the call of a nested span.
export function layout(store, rows, timeOf) {
  const spans = [], calls = new Map();
  for (const row of rows) {
    const lane = laneOf(store, row);
    if (lane === null) continue;
    const mate = store.mates[row];
    const span = { row, lane, start: timeOf(row), end: mate === null || lane > 1 ? timeOf(row) : timeOf(mate), deep: 0, rounds: [row], under: null };
    const first = lane === 0 ? calls.get(store.root(row)) : undefined;
    if (first) {
      first.rounds.push(row);
      first.end = Math.max(first.end, span.end);
      continue;
    }
    if (lane === 0) calls.set(row, span);
    if (lane === 1) span.under = calls.get(store.root(store.caller(row))) ?? null;
    spans.push(span);
  }
  const free = [[], []];
  for (const span of spans) {
    if (span.lane > 1 || span.under) continue;
    while (span.deep < DEEP - 1 && (free[span.lane][span.deep] ?? -1) > span.start) span.deep++;
    free[span.lane][span.deep] = Math.max(span.end, free[span.lane][span.deep] ?? 0);
  }
  for (const span of spans) if (span.under) [span.lane, span.deep] = [0, span.under.deep];
  return spans;
}
