// The waterfall: time across, a lane for each call of those that overlap, a server's requests below their call, and points
// for the rest. Above it the whole recording, with the part that is shown. Errors are painted last.

import { byId, duration, harmless } from "./text.mjs";
import { NONE } from "./store.mjs";
import { ASK_LANE, LANES, layout } from "./spans.mjs";

const TOP = 18, GAP = 2, THIN = 11, RIGHT = 10; // pixels
const [LOWEST, HIGHEST] = [3, 14]; // a bar
const LEGIBLE = 11; // a bar with words in it
const MAP = 34; // the minimap
const [LEFT_OUT, FITS, BAD_LEFT_OUT, BAD] = [0, 1, 2, 3]; // passes of painting
const MOST_HIGH = 6; // lanes that are as high as words, among lower ones
const CLOSEST = 20; // microseconds that the window shows at least

export class Waterfall {
  // `ranged`: the window of time has changed; `measured`: the marks of the ruler have.
  constructor(store, { ranged, chosen, hovered, measured }) {
    Object.assign(this, { store, ranged, chosen, hovered, measured, spans: null, range: null, total: 1, matches: null, selected: null, under: null, marks: [] });
    [this.box, this.canvas, this.map] = ["lanes", "waterfall", "minimap"].map(byId);
    new ResizeObserver(() => (this.place(), this.draw())).observe(byId("times"));
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.listen();
    this.listenToMap();
  }

  get from() {
    return this.range?.[0] ?? 0;
  }

  get to() {
    return this.range?.[1] ?? this.total;
  }

  // Rows in the order of time; `offsets`: the start of each session; `cuts`: where time is left out; `groups`: names of
  // servers, and by session the number of its own.
  set(rows, offsets, cuts, groups) {
    Object.assign(this, { offsets, cuts, groups });
    this.spans = layout(this.store, rows, (row) => this.timeOf(row), (session) => groups.of.get(session) ?? 0);
    const { count, end, lane, under, bad } = this.spans;
    this.total = 1;
    const numbers = LANES.map(() => 0);
    let wrong = 0;
    for (let one = 0; one < count; one++) {
      this.total = Math.max(this.total, end[one]);
      if (under[one] === NONE) numbers[lane[one]]++;
      wrong += bad[one];
    }
    const said = LANES.map((name, at) => [name, numbers[at]]).filter(([, number]) => number).map(([name, number]) => `${number.toLocaleString("en")} ${name}`);
    this.canvas.setAttribute("aria-label", `Waterfall of ${duration(this.total)}: ${said.join(", ") || "nothing"}${wrong ? `; ${wrong.toLocaleString("en")} in red` : ""}`);
    this.place();
    this.draw();
  }

  // The top of each span: lanes of calls as high as fits, and deeper ones where calls nest.
  place() {
    if (!this.spans) return;
    const { count, lane, group, deep, under, waits } = this.spans;
    const nests = new Map(); // by call, the requests of the server below each other
    for (let one = 0; one < count; one++) if (under[one] !== NONE) nests.set(under[one], Math.max(nests.get(under[one]) ?? 0, deep[one] + 1));
    const bands = this.groups.names.map(() => LANES.map(() => [])); // by group and lane, each depth
    for (let one = 0; one < count; one++) {
      if (under[one] !== NONE) continue;
      const at = (bands[group[one]][lane[one]][deep[one]] ??= { nested: 0, waits: false });
      at.nested = Math.max(at.nested, nests.get(one) ?? 0);
      at.waits ||= waits[one] === 1;
    }
    const thick = (at) => at <= ASK_LANE;
    const lanes = bands.flatMap((of) => of.filter((_, at) => thick(at)).flat());
    // Calls without an answer have words, unless that leaves too little to the others.
    const high = lanes.filter((one) => one.waits).length <= MOST_HIGH ? lanes.filter((one) => one.waits) : [];
    const fixed = TOP + 6 + bands.flatMap((of) => of.filter((band, at) => !thick(at) && band.length)).length * THIN + 4 * bands.length;
    const most = Math.max(120, Math.min(420, innerHeight * 0.36));
    const rest = lanes.reduce((sum, one) => sum + (high.includes(one) ? 0 : 1) + one.nested * 0.7, 0);
    this.bar = Math.max(LOWEST, Math.min(HIGHEST, Math.floor((most - fixed - high.length * (HIGHEST + GAP)) / Math.max(1, rest)) - GAP));
    this.nested = Math.max(2, Math.round(this.bar * 0.7));
    const talls = new Map(lanes.map((one) => [one, high.includes(one) ? HIGHEST : this.bar]));
    this.labels = [];
    let top = TOP + 2;
    const tops = bands.map((of, number) => of.map((band, at) => {
      if (!band.length) return [];
      this.labels.push([top, number === 0 && this.groups.names.length === 1 || at ? LANES[at] : this.groups.names[number]]);
      const found = band.map((one) => {
        const here = top;
        top += thick(at) ? talls.get(one) + GAP + one.nested * (this.nested + 1) : 0;
        return here;
      });
      top += thick(at) ? 2 : THIN;
      return found;
    }));
    [this.tops, this.talls] = [new Float32Array(count), new Uint8Array(count)];
    for (let one = 0; one < count; one++) {
      const call = under[one];
      if (call === NONE) {
        this.tops[one] = tops[group[one]][lane[one]][deep[one]];
        this.talls[one] = thick(lane[one]) ? talls.get(bands[group[one]][lane[one]][deep[one]]) : THIN - 5;
      } else [this.tops[one], this.talls[one]] = [this.tops[call] + this.talls[call] + 1 + deep[one] * (this.nested + 1), this.nested];
    }
    this.height = Math.max(top + 2, TOP + 20);
    this.box.style.height = `${Math.min(this.height, Math.max(most, fixed))}px`;
    byId("lanes-tall").style.height = `${this.height}px`;
  }

  timeOf(row) {
    return this.store.columns.at[row] + (this.offsets?.get(this.store.columns.session[row]) ?? 0);
  }

  // The span of a row: its call's, or its own.
  spanOf(row) {
    if (row === null || !this.spans || row >= this.store.count) return NONE;
    const { of, row: rows, start } = this.spans;
    const { mate, root } = this.store.columns;
    for (const one of [row, mate[row], root[row]]) if (one !== NONE && one < of.length && of[one] !== NONE) return of[one];
    let low = 0, high = start.length;
    for (const time = this.timeOf(row); low < high; ) {
      const middle = (low + high) >> 1;
      if (start[middle] < time) low = middle + 1;
      else high = middle;
    }
    for (; low < start.length && start[low] === this.timeOf(row); low++) if (rows[low] === row) return low;
    return NONE;
  }

  // `matches`: by row, whether the filter keeps it; null if it keeps all.
  mark(matches, range, selected, marks) {
    Object.assign(this, { matches, range, marks });
    if (selected !== this.selected) this.reveal(this.spanOf(selected));
    this.selected = selected;
    this.draw();
  }

  reveal(one) {
    if (one === NONE || !this.tops) return;
    const top = this.tops[one], { scrollTop, clientHeight } = this.box;
    if (top - TOP < scrollTop) this.box.scrollTop = top - TOP - 2;
    else if (top + this.talls[one] + 2 > scrollTop + clientHeight) this.box.scrollTop = top + this.talls[one] + 4 - clientHeight;
  }

  point(row) {
    if (row === this.under) return;
    this.under = row;
    this.draw();
  }

  get left() {
    return this.width < 500 ? 62 : 86;
  }

  x(time) {
    return this.left + ((time - this.from) / (this.to - this.from || 1)) * (this.width - this.left - RIGHT);
  }

  time(x) {
    return Math.max(0, Math.min(this.total, this.from + ((x - this.left) / (this.width - this.left - RIGHT)) * (this.to - this.from)));
  }

  draw() {
    if (this.drawing || !this.tops) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.paint();
      this.paintMap();
    });
  }

  pen(canvas, width, height) {
    const scale = devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.max(1, Math.round(height * scale));
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(canvas);
    pen.font = `11px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    const colours = new Map();
    return [pen, (name) => colours.get(name) ?? (colours.set(name, style.getPropertyValue(name).trim()), colours.get(name))];
  }

  paint() {
    const { box, canvas } = this;
    this.width = box.clientWidth;
    const height = box.clientHeight;
    canvas.style.height = `${height}px`;
    const [pen, colour] = this.pen(canvas, this.width, height);
    this.axis(pen, height, colour);
    pen.save();
    pen.beginPath();
    pen.rect(0, TOP, this.width, height - TOP);
    pen.clip();
    pen.translate(0, -box.scrollTop);
    pen.fillStyle = colour("--soft");
    for (const [top, name] of this.labels) pen.fillText(cut(pen, harmless(name), this.left - 12), 6, top + Math.max(5, Math.min(this.bar, HIGHEST) / 2));
    pen.beginPath();
    pen.rect(this.left - 1, 0, this.width, this.height + height);
    pen.clip();
    this.bars(pen, colour, box.scrollTop, height);
    pen.restore();
    this.ruler(pen, height, colour);
  }

  // The colour of a span: of an error, of a call that waits, of a call, of a server's request, of a point.
  kind(one) {
    const { bad, lane, row, under, waits } = this.spans;
    if (bad[one]) return "red";
    if (lane[one] > ASK_LANE) return "soft";
    if (waits[one] && this.store.isOpen(row[one])) return "amber";
    return lane[one] === ASK_LANE || under[one] !== NONE ? "ask" : "call";
  }

  isMatch(one) {
    const { matches, store, spans } = this;
    if (!matches) return true;
    const { mate } = store.columns;
    const fits = (row) => matches[row] || (mate[row] !== NONE && matches[mate[row]]);
    const row = spans.row[one];
    return spans.lane[one] > ASK_LANE ? matches[row] === 1 : store.work(row).some(fits);
  }

  // What is painted after what: the filter's rest first, errors last, so that nothing hides them.
  get passes() {
    return this.matches ? [LEFT_OUT, FITS, BAD_LEFT_OUT, BAD] : [FITS, BAD];
  }

  isIn(pass, one) {
    if (this.spans.bad[one] !== (pass >= BAD_LEFT_OUT ? 1 : 0)) return false;
    return !this.matches || this.isMatch(one) === (pass === FITS || pass === BAD);
  }

  bars(pen, colour, scrolled, height) {
    const { spans, tops, from, to } = this;
    const last = new Map(); // by top and pass, the pixel that is painted
    const [chosen, pointed] = [this.spanOf(this.selected), this.spanOf(this.under)];
    for (const pass of this.passes) {
      last.clear();
      for (let one = 0; one < spans.count; one++) {
        const start = spans.start[one], end = spans.end[one], top = tops[one];
        if (end < from || start > to || top > scrolled + height || top + HIGHEST < scrolled) continue;
        if (!this.isIn(pass, one)) continue;
        const left = Math.round(Math.max(this.x(start), this.left - 4)), right = Math.round(Math.min(this.x(end), this.width + 4)); // whole pixels are sharp
        if (right - (last.get(top) ?? -9) < 0.5) continue; // too narrow to see
        last.set(top, right);
        const wide = Math.max(spans.lane[one] > ASK_LANE ? 2 : 3, right - left), tall = this.talls[one];
        pen.fillStyle = colour(pass === LEFT_OUT ? "--line" : pass === BAD_LEFT_OUT ? "--rosy" : `--${this.kind(one)}`);
        pen.fillRect(left, top, wide, tall);
        if (pass && spans.lane[one] <= ASK_LANE) this.rounds(pen, one, left, top, tall, colour);
        if (pass && tall >= LEGIBLE && wide > 30) this.words(pen, one, left, top, wide, tall, colour);
      }
    }
    for (const [one, name] of [[pointed, "--soft"], [chosen, "--ink"]]) {
      if (one === NONE) continue;
      pen.strokeStyle = colour(name);
      pen.lineWidth = 2;
      const [left, right] = [this.x(spans.start[one]), this.x(spans.end[one])];
      pen.strokeRect(left - 1.5, tops[one] - 1.5, Math.max(3, right - left) + 3, this.talls[one] + 3);
    }
  }

  // The requests of a call that has several, within its bar: between them it waits.
  rounds(pen, one, left, top, tall, colour) {
    const { store, spans } = this;
    const work = store.work(spans.row[one]);
    if (work.length < 2) return;
    pen.fillStyle = colour("--paper");
    pen.globalAlpha = 0.55;
    const { mate } = store.columns;
    let done = spans.start[one];
    for (const row of work) {
      const from = this.x(done), to = this.x(this.timeOf(row));
      if (to - from > 1) pen.fillRect(Math.max(from, left), top + 1, to - Math.max(from, left), tall - 2);
      done = mate[row] === NONE ? spans.end[one] : this.timeOf(mate[row]);
    }
    pen.globalAlpha = 1;
  }

  // The name of a call in its bar; of one without an answer, its age at the end.
  words(pen, one, left, top, wide, tall, colour) {
    const { store, spans } = this;
    const row = spans.row[one], middle = top + tall / 2 + 0.5;
    const from = Math.max(left, this.left), room = Math.min(left + wide, this.width) - from - 8;
    if (room < 16) return;
    pen.fillStyle = colour("--bar-ink");
    const long = duration(spans.end[one] - spans.start[one]);
    const ages = spans.waits[one] ? [`${store.isOpen(row) ? "waits" : "no answer"} ${long}`, long] : [];
    const age = ages.find((text) => pen.measureText(text).width <= room) ?? "";
    const used = age ? pen.measureText(age).width + 8 : 0;
    if (age) pen.fillText(age, from + 4 + room - used + 8, middle);
    const name = store.word("name", row) ?? store.word("method", row) ?? "";
    if (room - used > 16) pen.fillText(cut(pen, harmless(name), room - used), from + 4, middle);
  }

  axis(pen, height, colour) {
    const rough = ((this.to - this.from) / Math.max(1, this.width - this.left)) * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) ?? 1;
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      pen.fillStyle = colour("--line");
      pen.fillRect(x, TOP - 4, 1, height - TOP + 4);
      const label = time ? timeIn(time, step) : "0";
      pen.fillStyle = colour("--soft");
      if (x + pen.measureText(label).width + 6 < this.width) pen.fillText(label, x + 3, TOP / 2);
    }
    pen.fillStyle = colour("--soft");
    for (const at of this.cuts ?? []) if (at >= this.from && at <= this.to) for (let y = TOP; y < height; y += 5) pen.fillRect(Math.round(this.x(at)), y, 1, 3);
  }

  // Two marks, and the time between them.
  ruler(pen, height, colour) {
    if (!this.marks.length) return;
    pen.fillStyle = colour("--accent");
    const places = this.marks.map((time) => Math.round(this.x(time)));
    for (const x of places) if (x >= this.left - 1 && x <= this.width) pen.fillRect(x, 0, 1.5, height);
    if (places.length < 2) return;
    const label = duration(Math.abs(this.marks[1] - this.marks[0]));
    const [left, right] = [Math.max(this.left, Math.min(...places)), Math.min(this.width, Math.max(...places))];
    if (right < left) return;
    pen.fillRect(left, TOP - 3, right - left, 2);
    const wide = pen.measureText(label).width + 8;
    const x = Math.max(this.left, Math.min(this.width - wide - 2, (left + right - wide) / 2));
    pen.fillRect(x, 1, wide, TOP - 4);
    pen.fillStyle = colour("--paper");
    pen.fillText(label, x + 4, TOP / 2 - 0.5);
  }

  // -- the minimap

  mapX(time) {
    return (time / this.total) * (this.mapWidth - 4) + 2;
  }

  paintMap() {
    const { map, spans, tops } = this;
    this.mapWidth = map.clientWidth;
    const [pen, colour] = this.pen(map, this.mapWidth, MAP);
    const y = (one) => 3 + ((tops[one] - TOP) / Math.max(1, this.height - TOP)) * (MAP - 8);
    const last = new Map();
    for (const pass of this.passes) {
      if (pass === this.passes.find((one) => one >= BAD_LEFT_OUT)) this.paintMarks(pen, colour); // below errors
      last.clear();
      for (let one = 0; one < spans.count; one++) {
        if (!this.isIn(pass, one)) continue;
        const left = Math.round(this.mapX(spans.start[one])), right = Math.max(left + 2, Math.round(this.mapX(spans.end[one])));
        const top = Math.round(y(one)), before = last.get(top) ?? -9;
        if (right - before < 0.5) continue;
        last.set(top, right);
        pen.fillStyle = colour(pass === LEFT_OUT ? "--line" : pass === BAD_LEFT_OUT ? "--rosy" : pass === BAD ? "--red" : this.matches ? "--amber" : `--${this.kind(one)}`);
        pen.fillRect(Math.max(left, before), top, right - Math.max(left, before), pass >= BAD_LEFT_OUT ? 3 : 2);
      }
    }
  }

  // The part that is shown, the ruler's marks, and the selected row.
  paintMarks(pen, colour) {
    if (this.range) this.paintWindow(pen, colour);
    pen.fillStyle = colour("--accent");
    for (const time of this.marks) pen.fillRect(this.mapX(time), 0, 1, MAP);
    if (this.selected === null || this.selected >= this.store.count) return;
    pen.fillStyle = colour("--ink");
    pen.fillRect(this.mapX(this.timeOf(this.selected)) - 0.5, 0, 1.5, MAP);
  }

  paintWindow(pen, colour) {
    const [left, right] = [this.mapX(this.from), this.mapX(this.to)];
    pen.fillStyle = colour("--veil");
    pen.fillRect(0, 0, left, MAP);
    pen.fillRect(right, 0, this.mapWidth - right, MAP);
    pen.fillStyle = colour("--accent");
    for (const x of [left - 2, right]) pen.fillRect(x, 0, 2, MAP);
    for (const at of [0, MAP - 1]) pen.fillRect(left, at, right - left, 1);
  }

  listenToMap() {
    const { map } = this;
    const time = (x) => Math.max(0, Math.min(this.total, ((x - 2) / (this.mapWidth - 4)) * this.total));
    let start = null, before = null;
    map.addEventListener("pointerdown", (event) => {
      start = time(event.offsetX);
      // Within the window, it moves; at its edges and outside, another is drawn.
      before = this.range && start > this.from && start < this.to ? [this.from, this.to] : null;
      const edge = 6 / this.mapWidth * this.total;
      if (this.range && Math.abs(start - this.from) < edge) [start, before] = [this.to, null];
      else if (this.range && Math.abs(start - this.to) < edge) [start, before] = [this.from, null];
      map.setPointerCapture(event.pointerId);
    });
    map.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const now = time(event.offsetX);
      if (before) this.window(before[0] + now - start, before[1] + now - start, true);
      else if (Math.abs(now - start) / this.total * this.mapWidth > 3) this.window(Math.min(start, now), Math.max(start, now));
    });
    map.addEventListener("pointerup", () => (start = null));
    map.addEventListener("dblclick", () => this.window(0, this.total));
    map.addEventListener("wheel", (event) => this.wheel(event, time(event.offsetX)), { passive: false });
  }

  // -- the window of time

  // Show from one time to another; `keep`: the length stays.
  window(from, to, keep = false) {
    const length = Math.min(this.total, Math.max(CLOSEST, to - from));
    if (keep || length > to - from) from = Math.max(0, Math.min(this.total - length, keep ? from : (from + to - length) / 2));
    const range = [Math.max(0, from), Math.min(this.total, keep ? from + length : Math.max(to, from + length))];
    this.range = range[1] - range[0] >= this.total * 0.9999 ? null : range;
    this.draw();
    this.ranged(this.range);
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.window(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(share) {
    const by = (this.to - this.from) * share;
    this.window(this.from + by, this.to + by, true);
  }

  wheel(event, around) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.pan((event.deltaX || event.deltaY) / 600);
    this.zoom(1.0015 ** Math.max(-400, Math.min(400, event.deltaY * (event.deltaMode ? 30 : 1))), around);
  }

  listen() {
    let start = null, rules = false;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      [start, rules] = [event.offsetX, event.shiftKey];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const row = this.at(event.offsetX, event.offsetY);
      if (start === null) {
        canvas.title = row === null ? "" : this.hint(row);
        this.point(row);
        return this.hovered(row);
      }
      if (Math.abs(event.offsetX - start) < 4) return undefined;
      this.marks = [this.time(start), this.time(event.offsetX)];
      return this.draw();
    });
    canvas.addEventListener("pointerleave", () => (this.point(null), this.hovered(null)));
    canvas.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const [from, to] = [start, event.offsetX].sort((a, b) => a - b).map((x) => this.time(x));
      const moved = Math.abs(event.offsetX - start) >= 4;
      start = null;
      if (moved && rules) return this.measured([from, to]);
      if (moved) {
        this.measured([]);
        return this.window(from, to);
      }
      const row = this.at(event.offsetX, event.offsetY);
      if (row !== null) this.chosen(row);
    });
    canvas.addEventListener("dblclick", () => this.window(0, this.total));
    canvas.addEventListener("wheel", (event) => {
      if (event.offsetX < this.left) return; // over the names, the lanes scroll
      this.wheel(event, this.time(event.offsetX));
    }, { passive: false });
  }

  hint(row) {
    const { store } = this;
    const took = store.word("kind", row) === "request" ? duration(store.duration(row)) : "";
    return [harmless(store.what(row)), store.status(row), took].filter(Boolean).join(", ");
  }

  // The row of the span at a place: the nearest, an error before others.
  at(x, y) {
    if (!this.tops || y < TOP) return null;
    const { spans, tops } = this;
    const level = y + this.box.scrollTop;
    let best = null, near = 6;
    for (let one = 0; one < spans.count; one++) {
      if (level < tops[one] - 1 || level > tops[one] + this.talls[one] + 1) continue;
      const left = this.x(spans.start[one]), right = Math.max(left + 3, this.x(spans.end[one]));
      const far = (x < left ? left - x : x > right ? x - right : 0) - (spans.bad[one] ? 0.5 : 0);
      if (far < near) [best, near] = [spans.row[one], far];
    }
    return best;
  }
}

// A time on an axis with such steps.
function timeIn(time, step) {
  const [unit, one] = step >= 1e6 ? ["s", 1e6] : step >= 1e3 && time < 1e7 ? ["ms", 1e3] : step >= 1 && time < 1e4 ? ["µs", 1] : ["s", 1e6];
  return `${Number((time / one).toFixed(6)).toLocaleString("en", { maximumFractionDigits: 6 })} ${unit}`;
}

// As much of a text as fits.
function cut(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let low = 0, high = Math.min(text.length, 200);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? `${text.slice(0, low)}…` : "";
}
