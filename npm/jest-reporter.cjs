// Jest's reporter: it alone knows which tests passed, and keeps their recordings.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { settle } = require("./tape.cjs");

module.exports = class TapeReporter {
  constructor() {
    this.directory = process.env.MCP_TAPE_JEST = fs.mkdtempSync(path.join(os.tmpdir(), "mcp-tape-jest-"));
  }

  onTestResult(test, { testResults }) {
    const passed = new Set(testResults.filter((one) => one.status === "passed").map((one) => one.fullName));
    for (const name of fs.readdirSync(this.directory)) {
      const file = path.join(this.directory, name);
      const recording = JSON.parse(fs.readFileSync(file, "utf8"));
      if (recording.testPath !== test.path) continue;
      settle(recording, passed.has(recording.name));
      fs.rmSync(file);
    }
  }

  onRunComplete() {
    fs.rmSync(this.directory, { recursive: true, force: true });
  }
};
