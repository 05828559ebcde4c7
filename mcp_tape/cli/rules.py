"""The rules of diff, breaking and verify, listed: `diff --rules`."""

from __future__ import annotations

from ..compare.rules import RULES, SECTIONS, Rule
from ..console.terminal import echo, echo_json


def list_rules(as_json: bool) -> None:
    """Print each rule: its level, its category, and what it means.

    † With --category model, the level is one higher. Of two levels, the sentence says when the second counts.
    """
    if as_json:
        for rule in RULES.values():
            echo_json(rule._asdict())
        return
    width = max(map(len, RULES)) + 2
    for section, rules in SECTIONS.items():
        echo(f"\n{section}", bold=True)
        for rule in rules:
            echo(f"  {rule.id:<{width}}{levels(rule):<13}{rule.category:<7}{sentence(rule)}")


def levels(rule: Rule) -> str:
    return rule.level + (f"/{rule.otherwise}" if rule.otherwise else "") + ("†" if rule.rises else "")


def sentence(rule: Rule) -> str:
    return f"{rule.says} ({rule.otherwise} {rule.when})" if rule.otherwise else rule.says
