"""Contracts of a run: the calls that it must and must not make, and its limits; and an audit of server texts.

Owns the rules of a breach. Knows nothing of how findings are printed or raised.

    terms     contracts as people write them, with the filters of `show`
    breaches  checks the sessions of a cassette, or the calls of a test, against a contract
    audit     server texts that try to steer a model
    reasons   the reasons why a run hung or failed
    context   the cost to a model of each tool's definition and results
"""
