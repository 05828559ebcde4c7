// A growing recording: asks its server for updates, can pause without losing any, and saves the rows on the page.

import { byId, el } from "./text.mjs";
import { unpacked, utf8 } from "./packed.mjs";

const PAUSE = 500; // milliseconds between two requests
const SECOND = 900; // between two looks at the clock

export class Live {
  // `grown`: there are more rows, and whether these are all so far; `aged`: time has passed.
  constructor(store, { grown, aged, say }) {
    Object.assign(this, { store, grown, aged, say, next: 0, taken: 0, generation: 0, paused: false });
  }

  // Take one update; return whether there are more.
  async take() {
    const answer = await fetch(`updates?from=${this.taken}&generation=${this.generation}`);
    if (!answer.ok) throw new Error(await answer.text());
    const data = new Uint8Array(await answer.arrayBuffer());
    const behind = data.indexOf(10);
    const { generation, more, updates, total } = JSON.parse(utf8(data.subarray(0, behind)));
    if (this.generation && generation !== this.generation) return location.reload(), false; // another recording took its place
    this.generation = generation;
    this.taken += updates;
    this.store.expect(total);
    if (updates) this.store.add(unpacked(data.subarray(behind + 1)));
    this.progress(more ? this.store.count / Math.max(1, total) : 1);
    this.new = updates > 0;
    return (this.more = more);
  }

  progress(share) {
    const bar = byId("loading");
    bar.hidden = share >= 1;
    bar.value = share;
    bar.textContent = `${Math.floor(share * 100)} %`;
  }

  goOn(shown) {
    const [pause, save] = [byId("pause"), byId("save")];
    pause.hidden = save.hidden = false;
    pause.addEventListener("click", () => {
      this.paused = !this.paused;
      pause.setAttribute("aria-pressed", this.paused);
      pause.textContent = this.paused ? "go on" : "pause";
    });
    save.addEventListener("click", () => this.save(shown()));
    this.ask();
  }

  async ask() {
    try {
      let grown = !this.begun, done = false;
      this.begun = true;
      for (let more = !this.paused; more; ) {
        const started = performance.now();
        more = await this.take();
        grown ||= this.new;
        // What is new is shown as it comes, and takes no more time than loading does.
        if (!grown || (more && started < this.next)) continue;
        const before = performance.now();
        await this.grown(!more);
        this.next = 2 * performance.now() - before;
        grown = false;
        done = !more;
      }
      if (grown && !done) await this.grown(true);
      if (!this.paused) await this.grow();
    } catch (error) {
      this.say(error instanceof TypeError ? "mcp-tape view has ended" : error.message);
      if (error instanceof TypeError) return; // the server is gone
    }
    setTimeout(() => this.ask(), PAUSE);
  }

  // Once in a second, and less often where that takes long.
  async grow() {
    const before = performance.now();
    if (before < (this.older ?? 0)) return;
    await this.aged();
    this.older = before + Math.max(SECOND, 10 * (performance.now() - before));
  }

  async save(rows) {
    const { session, seq } = this.store.columns;
    const wanted = {};
    for (const row of rows) (wanted[session[row]] ??= []).push(seq[row]);
    const answer = await fetch("save", { method: "POST", body: JSON.stringify(wanted) });
    if (!answer.ok) return this.say(await answer.text());
    const address = URL.createObjectURL(await answer.blob());
    el("a", { href: address, download: this.store.files[0].replace(/(\.\w+)?$/, "-filtered.db") }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }
}
