"""Commands on many cassettes: a function for one of them, whose result is a row that can be merged with others.

Each function is given plain values and returns plain values, so that any process can call it, here or elsewhere. It
prints nothing, and a cassette that cannot be read is a result like any other.

    results    Result: what came of one cassette, its row, and its suite in JUnit's XML
    verifying  verify_one
    diffing    diff_one; settings of a comparison as plain values; pairs of two directories
    checking   check_one
    redacting  redact_one
    merging    rows and XML of several runs, as if they were one
"""
