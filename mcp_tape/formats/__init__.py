"""Sessions as files of other kinds, and back: jsonl, raw, markdown and dump write, loading and building read."""
