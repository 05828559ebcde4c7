// A tape for one test at a time: which cassette, which mode, what was missed, and whether a recording is kept.
"use strict";

const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const MODES = ["none", "once", "new_episodes", "rewrite"];
const PATIENCE = 10_000; // milliseconds for a recorder to end after its client has left

class Tape {
  #server;
  #options;
  #now = null;

  constructor(server, options = {}) {
    this.#server = [...server];
    this.#options = options;
  }

  /** Begin a test. `keeps`: whether a recording can be kept, as something knows whether the test passes. */
  begin(testFile, testName, keeps = true) {
    const mode = this.#options.mode ?? process.env.TAPE_MODE ?? (process.env.CI ? "none" : "once");
    if (!MODES.includes(mode)) throw new Error(`mcp-tape: ${mode} is not a mode; there are: ${MODES.join(", ")}`);
    const file = this.#cassette(testFile, testName);
    const exists = fs.existsSync(file);
    const records = mode === "rewrite" || mode === "new_episodes" || (mode === "once" && !exists);
    if (records && !keeps) {
      throw new Error('mcp-tape: to record, add the reporter "mcp-tape-testing/jest-reporter" to the configuration of Jest');
    }
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "mcp-tape-"));
    const part = records ? `${file}.part` : file;
    if (records) {
      fs.mkdirSync(path.dirname(file), { recursive: true });
      for (const end of ["", "-wal", "-shm"]) fs.rmSync(part + end, { force: true });
      if (mode === "new_episodes" && exists) fs.copyFileSync(file, part);
    }
    this.#now = { file, part, records, directory, report: path.join(directory, "report.jsonl"), mode: records ? mode : "none" };
  }

  #cassette(testFile, testName) {
    if (this.#options.cassette) return path.resolve(this.#options.cassette);
    const module = path.basename(testFile).replace(/\.[^.]+$/, "");
    const name = testName.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 100);
    const server = this.#options.name ? `-${this.#options.name}` : "";
    return path.join(path.dirname(testFile), "cassettes", module, `${name}${server}.db`);
  }

  get #program() {
    return this.#options.program ?? ["mcp-tape"];
  }

  server() {
    if (!this.#now) throw new Error("mcp-tape: a tape has a server only while a test runs");
    const { part, mode, report } = this.#now;
    const [command, ...words] = this.#program;
    const options = ["--mode", mode, "--report", report, "--quiet", ...(this.#options.options ?? [])];
    return { command, args: [...words, "use", part, ...options, "--", ...this.#server] };
  }

  misses() {
    return this.#reported("miss");
  }

  #reported(what) {
    if (!this.#now || !fs.existsSync(this.#now.report)) return []; // a run that only records has no report
    const lines = fs.readFileSync(this.#now.report, "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line));
    return lines.filter((line) => line.what === what).map((line) => line.text);
  }

  /** Wait until the recording has ended, and throw if the tape could not answer. */
  async check() {
    if (!this.#now) return;
    const wrong = [...this.#reported("error"), ...this.misses()];
    if (wrong.length) throw new Error(wrong.join("\n\n"));
    const { records, part, file } = this.#now;
    if (!records || !fs.existsSync(part)) return;
    const end = Date.now() + PATIENCE;
    while (this.#isOpen(part)) {
      if (Date.now() > end) {
        throw new Error(`mcp-tape: the recording still runs, and ${file} was not changed; close the client in the test`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  #isOpen(part) {
    const [command, ...words] = this.#program;
    const sessions = execFileSync(command, [...words, "ls", part, "--json"], { encoding: "utf8" });
    return sessions.trim().split("\n").some((line) => JSON.parse(line).ended_at === null);
  }

  /** End a test: return its recording, as two paths, if there is one to keep or to drop. */
  end() {
    const now = this.#now;
    this.#now = null;
    if (!now) return null;
    fs.rmSync(now.directory, { recursive: true, force: true });
    return now.records && fs.existsSync(now.part) ? { part: now.part, file: now.file } : null;
  }
}

/** Put a recording in its place if its test passed; else remove it. */
function settle({ part, file }, passed) {
  if (passed) fs.renameSync(part, file);
  else for (const end of ["", "-wal", "-shm"]) fs.rmSync(part + end, { force: true });
}

module.exports = { Tape, settle, HOOK: 2 * PATIENCE };
