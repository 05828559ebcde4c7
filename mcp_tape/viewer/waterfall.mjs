// The waterfall: time across, a lane for each kind of traffic; calls that overlap stand below each other.

import { byId, duration } from "./text.mjs";

const LANES = ["calls", "server asks", "notices", "stderr", "events"];
const DEEP = 6; // calls below each other
const BAR = 7, GAP = 2, TOP = 18, LEFT = 78; // pixels
const THIN = 12; // of the lanes with points

export class Waterfall {
  constructor(store, ranged, chosen) {
    Object.assign(this, { store, ranged, chosen, spans: [], range: null, from: 0, to: 1, kept: null, selected: null });
    this.canvas = byId("waterfall");
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.listen();
  }

  // Rows in the order of time; `offsets`: where each session begins.
  set(rows, offsets) {
    const { store } = this;
    const { at, session } = store.columns;
    this.offsets = offsets;
    this.spans = [];
    this.to = 1;
    const ends = [[], []];
    for (const row of rows) {
      const start = at[row] + (offsets.get(session[row]) ?? 0);
      const [lane, mate] = [this.lane(row), store.mates[row]];
      if (lane === null) continue;
      let end = start, deep = 0;
      if (lane < 2) {
        end = mate === null ? start : at[mate] + (offsets.get(session[row]) ?? 0);
        const free = ends[lane];
        while (deep < DEEP - 1 && (free[deep] ?? -1) > start) deep++;
        free[deep] = Math.max(end, free[deep] ?? 0);
      }
      this.to = Math.max(this.to, end);
      this.spans.push({ row, start, end, lane, deep });
    }
    this.depth = [0, 1].map((lane) => Math.max(1, ends[lane].length));
    this.present = LANES.map((_, lane) => lane === 0 || this.spans.some((span) => span.lane === lane));
    this.draw();
  }

  lane(row) {
    const kind = this.store.word("kind", row);
    if (kind === "request") return this.store.columns.client[row] ? 0 : 1;
    if (kind === "response") return null; // the end of its request
    if (kind === "notification") return 2;
    return this.store.word("frame", row) === "control" ? 4 : 3;
  }

  timeOf(row) {
    const { at, session } = this.store.columns;
    return at[row] + (this.offsets?.get(session[row]) ?? 0);
  }

  mark(kept, range, selected) {
    Object.assign(this, { kept, range, selected });
    this.draw();
  }

  height(lane) {
    return lane < 2 ? this.depth[lane] * (BAR + GAP) + 4 : THIN;
  }

  x(time) {
    return LEFT + ((time - this.from) / (this.to - this.from)) * (this.width - LEFT - 8);
  }

  time(x) {
    return Math.max(this.from, Math.min(this.to, this.from + ((x - LEFT) / (this.width - LEFT - 8)) * (this.to - this.from)));
  }

  draw() {
    if (!this.depth) return;
    const { canvas } = this;
    const tops = [];
    let height = TOP;
    LANES.forEach((_, lane) => {
      tops.push(height);
      if (this.present[lane]) height += this.height(lane);
    });
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
    LANES.forEach((name, lane) => this.present[lane] && pen.fillText(name, 8, tops[lane] + (lane < 2 ? BAR : THIN) / 2 + 1));
    const colours = { ok: colour("--call"), odd: colour("--red"), asked: colour("--ask"), point: colour("--soft"), faint: colour("--line") };
    const last = new Map();
    this.places = [];
    for (const span of this.spans) {
      const left = this.x(span.start), right = this.x(span.end);
      const top = tops[span.lane] + span.deep * (BAR + GAP) + 1;
      const key = this.kept && !this.kept[span.row] && !(this.store.mates[span.row] !== null && this.kept[this.store.mates[span.row]]) ? "faint" : this.bad(span.row) ? "odd" : span.lane === 0 ? "ok" : span.lane === 1 ? "asked" : "point";
      this.places.push([left, Math.max(right, left + 2), top, span.row]);
      const pixel = `${span.lane}.${span.deep}.${key}`;
      if (right - (last.get(pixel) ?? -9) < 0.5) continue; // nobody would see it
      last.set(pixel, Math.max(right, left));
      pen.fillStyle = colours[key];
      pen.fillRect(left, top, Math.max(2, right - left), span.lane < 2 ? BAR : THIN - 5);
    }
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
  }

  listen() {
    let start = null;
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => {
      start = event.offsetX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (start === null || Math.abs(event.offsetX - start) < 4) return;
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

  at(x, y) {
    let best = null, near = 6;
    for (const [left, right, top, row] of this.places ?? []) {
      if (y < top - 1 || y > top + BAR + 1) continue;
      const far = x < left ? left - x : x > right ? x - right : 0;
      if (far < near) [best, near] = [row, far];
    }
    return best;
  }
}
