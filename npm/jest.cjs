"use strict";

const fs = require("node:fs");
const path = require("node:path");
const { randomUUID } = require("node:crypto");
const { Tape, HOOK } = require("./tape.cjs");

/** A tape for each test of this file, or of this describe. */
function useTape(server, options) {
  const tape = new Tape(server, options);
  const pending = process.env.MCP_TAPE_JEST; // the reporter's
  beforeEach(() => {
    const { testPath, currentTestName } = expect.getState();
    tape.begin(testPath, currentTestName, Boolean(pending));
  });
  afterEach(async () => {
    const { testPath, currentTestName } = expect.getState();
    try {
      await tape.check();
    } finally {
      const recording = tape.end();
      if (recording) {
        const facts = JSON.stringify({ ...recording, testPath, name: currentTestName });
        fs.writeFileSync(path.join(pending, `${randomUUID()}.json`), facts);
      }
    }
  }, HOOK);
  return tape;
}

module.exports = { useTape };
