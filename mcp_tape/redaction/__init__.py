"""Redaction: hides secrets before anything is written or shown, and puts them back for a live server.

Decides what is secret, and owns the placeholders on the tape. The tables of secret names are in wire/secret_names.py,
because match keys need them too. Must not know cassettes or sessions.

    redactor       Redactor: text to redacted text, one per session
    bodies         recordings without content: hashes or sizes in its place
    hiding_rules   rules for plain text, and a user's own rules
    shapes         shapes of tokens that services issue; private keys over several lines
    literals       known values, in all their spellings
    strings        strings of a JSON text and the keys above them
    command_lines  secrets on command lines
    environment    secret variables, and the variables of .env files
    diagnostics    redacted remarks about live traffic, for reports and errors
    restore        secrets from the environment in place of placeholders
"""
