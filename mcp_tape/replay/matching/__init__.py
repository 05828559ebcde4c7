"""Looser matching, on request: the recorded request that answers one that is not recorded exactly.

Loaded only if an option asks for it. The rungs of the ladder, strictest first: equal except for ignored parts (or in
the parts that alone count), equal once normalized, nearest. A rung answers only what no earlier rung can. Does no I/O
and reads no clock.

    targets   parses the options: the requests that each applies to, and its value
    normal    normalizes values before comparison: paths, times, ids
    bindings  pairs live paths and ids with recorded ones, and puts the live ones into outgoing text
    nearness  the similarity of two values
    ladder    the rungs, the recorded requests that each finds, and the rung that would answer a miss
    partial   recordings written by hand: stubs with partial arguments
"""
