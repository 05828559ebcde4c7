// The waterfall: time across, a lane for each kind of traffic. Overlapping calls are below each other, and a server's
// requests during a call are below that call.

import { byId, duration, harmless } from "./text.mjs";
import { LANES, layout } from "./spans.mjs";

const BAR = 7, GAP = 2, TOP = 18, LEFT = 82; // pixels
const NESTED = 5; // of a bar below another
const THIN = 12; // of the lanes with points

export class Waterfall {
  constructor(store, ranged, chosen) {
    Object.assign(this, { store, ranged, chosen, spans: [], range: null, from: 0, to: 1, kept: null, selected: null });
    this.canvas = byId("waterfall");
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.listen();
  }

  // Rows in the order of time; `offsets`: the start of each session; `cuts`: where time is left out.
  set(rows, offsets, cuts) {
    Object.assign(this, { offsets, cuts });
    this.spans = layout(this.store, rows, (row) => this.timeOf(row));
    this.to = this.spans.reduce((to, span) => Math.max(to, span.end), 1);
    this.place();
    const count = (lane) => this.spans.filter((span) => span.lane === lane && !span.under).length;
    const said = LANES.map((name, lane) => [name, count(lane)]).filter(([, number]) => number).map(([name, number]) => `${number.toLocaleString("en")} ${name}`);
    this.canvas.setAttribute("aria-label", `Waterfall of ${duration(this.to)}: ${said.join(", ") || "nothing"}`);
    this.draw();
  }

  // The top of each lane, and of each call's place in it.
  place() {
    const deepest = [0, 1].map((lane) => this.spans.reduce((most, span) => (span.lane === lane ? Math.max(most, span.deep) : most), 0));
    const nests = new Set(this.spans.filter((span) => span.under).map((span) => span.deep));
    this.tops = [];
    let top = TOP;
    LANES.forEach((_, lane) => {
      const present = lane === 0 || this.spans.some((span) => span.lane === lane);
      this.tops.push({ top, present, rows: [] });
      if (!present) return;
      if (lane > 1) return void (top += THIN);
      for (let deep = 0; deep <= deepest[lane]; deep++) {
        this.tops[lane].rows.push(top + 1);
        top += BAR + GAP + (lane === 0 && nests.has(deep) ? NESTED + 1 : 0);
      }
      top += 4;
    });
    this.height = top;
  }

  topOf(span) {
    const { top, rows } = this.tops[span.lane];
    return span.lane > 1 ? top + 2 : rows[span.deep] + (span.under ? BAR + 1 : 0);
  }

  timeOf(row) {
    const { at, session } = this.store.columns;
    return at[row] + (this.offsets?.get(session[row]) ?? 0);
  }

  mark(kept, range, selected) {
    Object.assign(this, { kept, range, selected });
    this.draw();
  }

  x(time) {
    return LEFT + ((time - this.from) / (this.to - this.from)) * (this.width - LEFT - 8);
  }

  time(x) {
    return Math.max(this.from, Math.min(this.to, this.from + ((x - LEFT) / (this.width - LEFT - 8)) * (this.to - this.from)));
  }

  draw() {
    if (!this.tops) return;
    const { canvas, height } = this;
    canvas.style.height = `${height + 4}px`;
    this.width = canvas.clientWidth;
    const scale = devicePixelRatio || 1;
    canvas.width = Math.max(1, this.width * scale);
    canvas.height = (height + 4) * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    pen.font = `11px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    this.axis(pen, height, colour);
    pen.fillStyle = colour("--soft");
    LANES.forEach((name, lane) => this.tops[lane].present && pen.fillText(name, 8, this.tops[lane].top + (lane < 2 ? BAR : THIN) / 2 + 1));
    this.bars(pen, colour);
    if (this.selected !== null && this.selected < this.store.count) {
      pen.fillStyle = colour("--accent");
      pen.fillRect(this.x(this.timeOf(this.selected)) - 0.5, TOP - 4, 1.5, height - TOP + 4);
    }
    if (this.range) {
      pen.fillStyle = colour("--veil");
      const [left, right] = this.range.map((time) => this.x(time));
      pen.fillRect(LEFT, TOP, left - LEFT, height - TOP);
      pen.fillRect(right, TOP, this.width - right, height - TOP);
    }
  }

  bars(pen, colour) {
    const colours = { ok: colour("--call"), odd: colour("--red"), asked: colour("--ask"), point: colour("--soft"), faint: colour("--line"), waits: colour("--waits") };
    const last = new Map();
    this.places = [];
    for (const span of this.spans) {
      const [left, right, top] = [this.x(span.start), this.x(span.end), this.topOf(span)];
      const key = this.isFaint(span) ? "faint" : span.rounds.some((row) => this.bad(row)) ? "odd" : span.lane === 0 && !span.under ? "ok" : span.lane < 2 ? "asked" : "point";
      const tall = span.under ? NESTED : span.lane < 2 ? BAR : THIN - 5;
      this.places.push([left, Math.max(right, left + 2), top, tall, span.row]);
      const pixel = `${top}.${key}`;
      if (right - (last.get(pixel) ?? -9) < 0.5) continue; // too narrow to see
      last.set(pixel, Math.max(right, left));
      pen.fillStyle = colours[span.rounds.length > 1 && key !== "faint" ? "waits" : key];
      pen.fillRect(left, top, Math.max(2, right - left), tall);
      if (span.rounds.length > 1) this.rounds(pen, span, top, tall, colours[key]);
    }
  }

  // The rounds of a call that has several, within its bar: between them the server waits or is polled.
  rounds(pen, span, top, tall, colour) {
    pen.fillStyle = colour;
    for (const row of span.rounds) {
      const mate = this.store.mates[row];
      const left = this.x(this.timeOf(row));
      pen.fillRect(left, top, Math.max(2, (mate === null ? left : this.x(this.timeOf(mate))) - left), tall);
    }
  }

  isFaint({ rounds }) {
    const kept = (row) => row !== null && this.kept[row];
    return this.kept && !rounds.some((row) => kept(row) || kept(this.store.mates[row]));
  }

  bad(row) {
    const mate = this.store.mates[row];
    return this.store.odd(row) || (mate !== null && this.store.odd(mate));
  }

  axis(pen, height, colour) {
    const rough = ((this.to - this.from) / Math.max(1, this.width - LEFT)) * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    for (let time = 0; time <= this.to; time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      pen.fillStyle = colour("--line");
      pen.fillRect(x, TOP - 4, 1, height - TOP + 4);
      const label = time ? duration(time).replace(/\.0+(?= )/, "").replace(/(\.\d*?)0+(?= )/, "$1") : "0";
      pen.fillStyle = colour("--soft");
      if (x + pen.measureText(label).width + 6 < this.width) pen.fillText(label, x + 3, TOP / 2);
    }
    pen.fillStyle = colour("--soft");
    for (const cut of this.cuts ?? []) for (let y = TOP; y < height; y += 5) pen.fillRect(Math.round(this.x(cut)), y, 1, 3);
  }

  listen() {
    let start = null;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      start = event.offsetX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (start === null) return void (canvas.title = this.hint(event.offsetX, event.offsetY));
      if (Math.abs(event.offsetX - start) < 4) return;
      this.range = [this.time(Math.min(start, event.offsetX)), this.time(Math.max(start, event.offsetX))];
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const moved = Math.abs(event.offsetX - start) >= 4;
      start = null;
      if (moved) return this.ranged(this.range);
      const row = this.at(event.offsetX, event.offsetY);
      if (row !== null) this.chosen(row);
    });
    canvas.addEventListener("dblclick", () => this.ranged(null));
  }

  hint(x, y) {
    const row = this.at(x, y);
    if (row === null) return "";
    const took = duration(this.store.columns.took[row]);
    return `${harmless(this.store.what(row))}${took ? `, ${took}` : ""}`;
  }

  at(x, y) {
    let best = null, near = 6;
    for (const [left, right, top, tall, row] of this.places ?? []) {
      if (y < top - 1 || y > top + tall + 1) continue;
      const far = x < left ? left - x : x > right ? x - right : 0;
      if (far < near) [best, near] = [row, far];
    }
    return best;
  }
}
