"""Cassettes in tests: `use_cassette`, and the parts of the pytest plugin that not every pytest run loads.

Owns the settings of a test's tape, and what happens to its recordings. Must not know click, SQL or the wire. Recorders
are other processes, started with options of the table (mcp_tape/options.py).

    use               `use_cassette`: checks its keywords, and chooses between the next two
    playing           a cassette that plays, in this process
    recorders         recorder processes, and what they are passed: secrets, variables, headers
    used              the public face of both
    group             the tape of several servers: one cassette, one report
    entries           a server's description, and its replacement in a client's configuration
    tape_events       the calls, misses and errors of recorders, from their cassette and report
    tape_settings     the precedence of command line, marks, fixture and ini; the path of a test's cassette
    plugin            the tapes of one pytest run
    shared            recordings of the run: one process for each, kept when their tests have passed
    failures          misses and errors as failures of a test
    idle_marks        marks without a tape
    terminal_summary  the end of the run
"""
