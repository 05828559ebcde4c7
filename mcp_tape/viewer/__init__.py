"""A recording as a page in the browser: one file that needs nothing else, or served while it is being recorded.

It owns the page, the form in which a cassette travels to it, and who may ask for it; it must not know SQL or click.

    tapes      cassettes on one page: their sessions, and the numbers of these
    pack       rows of a cassette as an index and blocks of texts
    columns    columns of numbers as bytes
    spans      requests that are one piece of work: rounds of a call, polls of a task
    findings   what `why` and `check --audit` find
    aligned    calls of two recordings side by side, as `diff` aligns them
    feed       updates of a cassette that grows, and saving some of its frames
    serve      the page on a loopback address, for a browser on this machine alone
    page       the page, joined from the files beside it, with its Content-Security-Policy
    page.html  app.css  loader.js  *.mjs
               plain modules without a build step: text (making it visible), packed (what is packed, read again), store
               (index and texts), filters (the grammar of `cassette/query/filters.py`), tree (JSON, folded), content
               (results as what they are), spans (where everything stands in time), list, copying, findings, details,
               waterfall, tables, compare, live, app
"""
