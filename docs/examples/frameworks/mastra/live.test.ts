import { expect, test } from "vitest";
import { ask, TIME } from "./agent";

test("noon in Tokyo", async () => {
  const said = await ask(TIME);
  expect(said).toContain("21:00");
});
