"""Write docs/rules.md from the rule table: python docs/make_rules.py"""

from __future__ import annotations

from pathlib import Path

from mcp_tape.cli.commands.diff import levels, sentence
from mcp_tape.compare.rule_table import IN_SECURITY, SECTIONS, Rule

PAGE = Path(__file__).parent / "rules.md"
INTRO = """# Rules

<!-- Made by docs/make_rules.py from the rule table. -->

Every change that [`mcp-tape diff`](diff.md), `breaking` and [`verify`](verify.md) can find. `mcp-tape diff --rules`
prints the same table, and with `--json` gives it to programs.

Levels: **error**, a client that followed the old contract can stop working; **warn**, it cannot be told from the
recordings, or it changes what a model does; **info**, breaks no client by itself. Where there are two, the sentence
says when the second holds. Of levels with † the change counts one level more under `--category model`.

Categories: **wire**, JSON-RPC and the protocol; **call**, the contract of a call; **model**, what a model reads.

`--category security` keeps only the rules with ‡, at error: text that steers a model, characters that people cannot
see, names that look like others, safety hints that changed, another address or name, and new text of any kind.
"""


def page() -> str:
    """The whole text of the page."""
    parts = [INTRO]
    for section, rules in SECTIONS.items():
        rows = "".join(map(_row, rules))
        parts.append(f"## {section}\n\n| rule | level | category | what it means |\n|---|---|---|---|\n{rows}")
    return "\n".join(parts)


def _row(rule: Rule) -> str:
    mark = "‡" if rule.id in IN_SECURITY else ""
    return f"| `{rule.id}`{mark} | {levels(rule)} | {rule.category} | {sentence(rule)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
