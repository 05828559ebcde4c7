"""Matching that bends where it was asked to: which recorded request answers one that is not recorded as it is.

Loaded only where somebody asks for more than exact matching. The rungs of the ladder, from the strictest: what is
ignored (or alone counts), what is equal once it is normalized, what is nearest. None of them answers what one before
it can answer. Does no I/O and reads no clock.

    targets   the texts of options: which requests each is for, and what it asks for
    normal    values made equal before they are compared: paths, times, ids
    bindings  which live path or id stands for which recorded one, and how it is put back into what goes out
    nearness  how similar two values are
    partial   recordings by hand, whose arguments may be partial
    ladder    the rungs, the recorded requests that each finds, and which rung would answer a miss
"""
