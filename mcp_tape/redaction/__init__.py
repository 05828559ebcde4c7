"""Redaction: secrets hidden before anything is written or shown, and put back for a live server.

Owns the decision about what is secret and its placeholder on the tape; the tables of secret names are
wire/secret_names.py, as match keys need them too. Must not know cassettes or sessions.

    redactor        Redactor: text to redacted text, one per session
    bodies          recordings without what was said: hashes or sizes in its place
    rules           rules for plain text, and those of a user
    shapes          shapes of tokens that services issue; private keys over several lines
    values          known values, in all their spellings
    strings         strings of a JSON text and the keys above them
    command_lines   secrets on command lines
    environment     secret variables: which they are, and those of .env files
    diagnostics     redacted remarks about live traffic, for reports and errors
    restore         placeholders replaced by secrets of the environment
"""
