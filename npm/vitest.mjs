import { afterEach, beforeEach } from "vitest";
import tapes from "./tape.cjs";

/** A tape for each test of this file, or of this describe. */
export function useTape(server, options) {
  const tape = new tapes.Tape(server, options);
  beforeEach(({ task, onTestFinished }) => {
    const names = [];
    for (let at = task; at && at !== task.file; at = at.suite) names.unshift(at.name);
    tape.begin(task.file.filepath, names.join(" "));
    onTestFinished(() => {
      const recording = tape.end();
      if (recording) tapes.settle(recording, task.result?.state === "pass");
    });
  });
  afterEach(() => tape.check(), tapes.HOOK);
  return tape;
}
