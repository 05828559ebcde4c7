export type Mode = "none" | "once" | "new_episodes" | "rewrite";

export interface TapeOptions {
  /** The cassette, in place of one for each test. */
  cassette?: string;
  /** The server's name, where a test has several: it is added to the names of the cassettes. */
  name?: string;
  /** In place of TAPE_MODE. */
  mode?: Mode;
  /** More options of `mcp-tape use`. */
  options?: readonly string[];
  /** The command of mcp-tape. */
  program?: readonly string[];
}

export interface Tape {
  /** The server of the test that runs, for a client that starts it. */
  server(): { command: string; args: string[] };
  /** The misses so far, each as the text that mcp-tape prints. */
  misses(): string[];
}

/** A tape for each test of this file, or of this describe. */
export function useTape(server: readonly string[], options?: TapeOptions): Tape;
