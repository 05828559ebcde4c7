"""A recording as a page in the browser: one file that needs nothing else, or served while it is being recorded.

It owns the page, the form in which a cassette travels to it, and who may ask for it; it must not know SQL or click.

    pack       rows of a cassette as an index and blocks of texts
    feed       updates of a cassette that grows, and saving some of its frames
    serve      the page on a loopback address, for a browser on this machine alone
    page       the page, joined from the files beside it, with its Content-Security-Policy
    page.html  app.css  *.mjs
               plain modules without a build step: text (making it visible), store (index and texts), filters (the
               grammar of `cassette/query/filters.py`), tree (JSON, folded), content (results as what they are),
               list, details, waterfall, tables, app
"""
