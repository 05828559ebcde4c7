"""Commands on many cassettes: their options, which of them are meant, the run, and what it prints.

running    the run: in this process or in several, results in order, rows, a summary
"""
