"""Sessions as files of other kinds: each module has dump(frames, out)."""
