"""Cassettes in tests: `use_cassette`, and all of the pytest plugin that is not loaded by every pytest run.

It owns how a test's settings come about, and what becomes of its recordings. It must not know click, SQL or the wire;
recorders are other processes, started with options of the table (mcp_tape/options.py).

    use         `use_cassette`: checks its keywords, and chooses between the next two
    playing     a cassette that plays, in this process
    recording   a cassette that recorders of their own processes record
    used        the public face of both
    servers     several servers as one tape
    happened    the calls, misses and errors of recorders, from their cassette and report
    handover    what of this process recorders are handed: secrets to hide, variables and headers for the server
    settings    the precedence of command line, marks, fixture and ini; the path of a test's cassette
    plugin      the tapes of one pytest run
    shared      recordings of the run: one process for each, put in place when their tests have passed
    failures    misses and errors as failures of a test
    idle_marks  marks without a tape
    summary     the end of the run
"""
