"""Contracts of a run: what it must do, must not do and may cost; and an audit of the server texts that a model read.

Owns the rules of a breach. Knows nothing of how findings are printed or raised.

    terms     contracts as people write them, with the filters of `show`
    breaches  the sessions of a cassette, or the calls of a test, against a contract
    audit     server texts that try to steer a model
    reasons   why a run hung or failed
    context   the cost to a model of each tool's definition and results
"""
