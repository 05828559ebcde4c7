"""A recording as a page in the browser: a self-contained file, or served while it is being recorded.

Owns the page, the form in which cassettes reach it, and the rule that only this machine's browser may load it. Must not
know SQL or click.

    tapes      cassettes on one page: their sessions with their numbers, and the findings of `why` and `check --audit`
    pack       rows of a cassette as an index and blocks of texts; requests that belong to one call
    feed       updates of a growing cassette, and saving some of its frames
    page_server  the page on a loopback address, for a browser on this machine
    page       the page, joined from the files beside it, with its Content-Security-Policy; calls of two recordings side
               by side, as `diff` aligns them
    page.html  app.css  loader.js  *.mjs
               plain modules without a build step: text (safe display), packed (decodes the packed data), store (index,
               calls and texts), filters (the grammar of `cassette/query/filters.py`), tree (JSON, folded), content
               (results by type), calls (calls as rows), spans (times and lanes), list, copying, findings, details,
               waterfall, tables, compare, live, app
"""
