"""Contracts of a run: what it must do, must not do and may cost, and an audit of what its server told the model.

Owns what breaks a contract. Knows nothing of how findings are printed or raised.

    terms.py   contracts as people write them, by the filters of `show`
    run.py     the sessions of a cassette against a contract
    calls.py   the calls of a test against a contract
    audit.py   text of a server that tries to steer a model
    why.py     why a run hung or failed
    context.py what each tool's definition and results cost a model
"""
