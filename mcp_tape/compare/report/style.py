"""How the page looks. Contrast is 4.5 : 1 or better in both schemes; colour never says anything alone."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #f3f4f6; --line: #8a929c;
  --error: #b00020; --warn: #7a4b00; --info: #0b5cad; --gone: #ffe3e3; --come: #dcf5e1; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e6e8ea; --soft: #21262b; --line: #7d8791;
  --error: #ff9aa2; --warn: #f0c36b; --info: #8ec5ff; --gone: #4a1d22; --come: #173d24; } }
body { background: var(--back); color: var(--text); font: 1rem/1.5 system-ui, sans-serif;
  max-width: 75rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
a { color: inherit; }
table { border-collapse: collapse; } caption { text-align: left; }
th, td { border: 1px solid var(--line); padding: .25rem .75rem; text-align: left; }
h4 { margin: 0; font-size: .875rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
pre { background: var(--soft); padding: .5rem; margin: 0; white-space: pre-wrap; }
del { background: var(--gone); text-decoration: none; } ins { background: var(--come); text-decoration: none; }
.error { color: var(--error); } .warn { color: var(--warn); } .info { color: var(--info); }
.unknown { border: 2px solid var(--error); padding: .5rem; }
.change { color: var(--text); border-left: .25rem solid var(--line); padding: .25rem .75rem; margin: .5rem 0;
  break-inside: avoid; }
.change.error { border-color: var(--error); } .change.warn { border-color: var(--warn); }
summary { cursor: pointer; }
.pair { display: grid; gap: .5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
@media print { body { max-width: none; padding: 0; }
  details::details-content { content-visibility: visible; block-size: auto; } }
"""
