import { expect, test } from "vitest";
import { ask, TIME } from "./agent";

const TAPE = ["mcp-tape", "use", "cassettes/noon.db", "--mode", process.env.TAPE_MODE ?? "none", "--"];

test("noon in Tokyo", async () => {
  const said = await ask([...TAPE, ...TIME]);
  expect(said).toContain("21:00");
});
