"""Commands on many cassettes: a function for each command handles one cassette and returns a result.

The functions take and return plain values, so that any process can call them, here or on another machine. They print
nothing, and an unreadable cassette is a result like any other. Results are rows that can be merged.

    results    Result: the outcome for one cassette, its row, and its test suite in JUnit XML
    verifying  verify_one
    diffing    diff_one; settings of a comparison as plain values; pairs of two directories
    checking   check_one
    redacting  redact_one
    merging    merges the rows or the XML of several runs
"""
