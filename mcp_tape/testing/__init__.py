"""Cassettes in tests: `use_cassette`, and all of the pytest plugin that is not loaded by every pytest run.

It owns how a test's settings come about, and what becomes of its recordings. It must not know click, SQL or the wire;
recorders are other processes, started with options of the table (mcp_tape/options.py).

use.py         `use_cassette`: checks its keywords, and chooses between the next two
playing.py     a cassette that plays, in this process
recording.py   a cassette that recorders of their own processes record
used.py        the public face of both
happened.py    the calls, misses and errors of recorders, from their cassette and report
handover.py    the secrets of this process, for recorders
settings.py    the precedence of command line, marks, fixture and ini; the path of a test's cassette
plugin.py      the tapes of one pytest run
shared.py      recordings of the run: one process for each, put in place when their tests have passed
failures.py    misses and errors as failures of a test
idle_marks.py  marks without a tape
summary.py     the end of the run
"""
