"""Server texts that try to steer a model: orders, hidden characters, disguised names, links that carry data out.

A suspicion is not proof. The descriptions of real servers set the norm: the purpose of a tool, when to use it, which
other tool comes first. Orders to a model about its other instructions, its user or secrets belong neither in a
description nor in a result. The patterns are English.
https://owasp.org/www-project-top-10-for-large-language-model-applications/ (LLM01) describes the attacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..wire import protocol
from ..wire.jsontext import Path
from .characters import describe_disguise, describe_hidden, find_lookalikes, normalize_visible
from .texts import walk

ORDERS, HIDDEN, DISGUISED, LEAKS = (
    "text-steers-model", "text-has-hidden-characters", "name-looks-like-another", "text-carries-data-out",
)  # fmt: skip
_NAME = re.compile(r"[\w$]*", re.ASCII)  # no pattern matches within such a name
_MOST_SHOWN = 80
_NOT = r"(?:do\s+not|don[’']t|must\s+not|never|without|avoid|refrain\s+from)"
_OLD = r"(?:previous|prior|above|earlier|preceding|former|existing|original|system|safety)"
_FILES = (
    r"(?:~/\.(?:ssh|aws|gnupg|cursor|claude)\b|\bid_(?:rsa|ed25519)\b(?!\.pub)|\.aws/credentials|/etc/(?:passwd|shadow)\b"
    r"|claude_desktop_config|\.cursor/mcp\.json)"
)
_OWN = (
    r"(?:(?:full|entire|whole|complete|previous)\s+(?:conversation|chat)(?:\s+(?:history|log|transcript))?"
    r"|(?:your|the)\s+system\s+prompt|(?:all|any|the\s+user[’']?s)\s+(?:secrets|credentials|passwords|(?:api|private)\s+keys))"
)
_PASS_ON = r"(?:send|include|pass|attach|append|copy|paste|upload|forward|exfiltrate|leak)"
# "Never tell a user a message was sent" is about claims that may be untrue; it hides nothing.
_CLAIM = r"\s+(?:that\s+)?(?:an?|the|their|your|its)\s+(?:[\w’'-]+\s+){1,3}?(?:was|were|is|are|has|have|had|will)\b"
# For each order: its description, lower-case words of which one must occur (a quick test that rules out most texts),
# and its pattern.
_ORDERS = tuple(
    (what, signs.split(), re.compile(pattern, flags))
    for what, signs, pattern, flags in (
        (
            "tells a model to ignore its instructions",
            "ignore disregard forget",
            rf"\b(?:ignore|disregard|forget)\s+(?:(?:all|any|every|of|the|your|my|these|those|other)\s+){{0,4}}{_OLD}"
            r"\s+(?:[\w-]+\s+){0,2}?(?:instructions?|prompts?|rules|directions|guidelines)\b",
            re.I,
        ),
        (
            "tells a model to keep something from its user",
            "user human",
            rf"\b{_NOT}\s+(?:ever\s+)?(?:tell|inform|mention|reveal|disclos|let)(?:e|ing|ting)?\s+(?:[\w’']+\s+){{0,4}}?"
            rf"(?:to\s+)?(?:an?\s+(?:user|human)\b(?!{_CLAIM})"
            rf"|(?:the\s+|your\s+)?(?<!\ba\s)(?<!\ban\s)(?:user|human)s?\b(?!{_CLAIM}[^.\n]{{0,200}}?\bunless\b))",
            re.I,
        ),
        (
            "tells a model not to ask for consent",
            "confirmation permission approval consent",
            r"\b(?:do\s+not|don[’']t|never|no\s+need\s+to)\s+ask\s+(?:(?:the\s+)?(?:user|human|them)\s+)?(?:for\s+)?"
            r"(?:(?:any|their|explicit|further)\s+)?(?:confirmation|permission|approval|consent)\b",
            re.I,
        ),
        (
            "pretends to be the system's",
            "< [inst] [/inst]",
            r"<IMPORTANT>|<(SYSTEM|CRITICAL|INSTRUCTIONS?|HIDDEN|SECRET|OVERRIDE|ADMIN)>[\s\S]{1,2000}?</\1>"
            r"|<\|(?:im_start|im_end|system|start_header_id)\|>|<<SYS>>|\[/?INST\]|</?system[-_](?:reminder|prompt|override)>",
            0,
        ),
        (
            "gives a model another role",
            "now instructions",
            r"\byou\s+are\s+now\s+(?:in\s+)?(?:an?\s+)?(?:developer|debug|god|admin|root|jailbroken|dan|unrestricted"
            r"|unfiltered)\b|\b(?:new|real)\s+(?:system\s+)?instructions\s*:",
            re.I,
        ),
        (
            "asks for secret files",
            "~/. id_ .aws/ /etc/ claude_ .cursor/",
            rf"\b(?:read|{_PASS_ON})\b[^\n]{{0,120}}?{_FILES}",
            re.I,
        ),
        (
            "asks for what a model knows",
            "chat conversation prompt secrets credentials passwords keys",
            rf"\b{_PASS_ON}\b[^.\n]{{0,80}}?\b{_OWN}",
            re.I,
        ),
    )
)
_COMMENT = re.compile(r"<!--[\s\S]{0,2000}?-->")
_LINK = re.compile(r"\]\(\s*<?(https?://[^\s)>]{1,2000})|<img[^>]{0,200}?\ssrc=[\"']?(https?://[^\"'\s]{1,2000})", re.I)
_FILLED_IN = re.compile(
    r"[?&][\w.-]{1,40}=(?:\{|%7B|<|%3C|\[|%5B|\$|%s|(?:[A-Z]{3,20}_)?(?:DATA|SECRET|CONTENT|TEXT|HISTORY|PROMPT)\b)"
)
_COLLECTS = re.compile(
    r"https?://(?:[\w-]{1,63}\.){0,4}(?:webhook\.site|requestbin\.(?:com|net)|m\.pipedream\.net|requestcatcher\.com|hookbin\.com"
    r"|beeceptor\.com|burpcollaborator\.net|oastify\.com|interact\.sh|oast\.(?:fun|pro|live|site|online|me)|dnslog\.cn)\b",
    re.I,
)  # fmt: skip


class Suspicion(NamedTuple):
    """A text that may try to steer a model: the rule, the place, and the reason."""

    rule: str
    path: Path
    why: str


def definition_suspicions(result: Any, path: Path = ("result",)) -> Iterator[Suspicion]:
    """Yield suspicions in the answer to a list: in all its texts, and in the names of its items."""
    yield from _in_value(result, path, strict=True)
    for kind in protocol.KINDS:
        items = protocol.member(result, kind.member)
        names = [protocol.member(item, "name") for item in (items if isinstance(items, list) else ())]
        places: dict[str, Path] = {}
        for at, name in enumerate(names):
            if isinstance(name, str):
                places.setdefault(name, (*path, kind.member, at, "name"))
        for first, name in find_lookalikes(places):
            yield Suspicion(DISGUISED, places[name], f"{name!a} looks like {first!a}")


def item_suspicions(item: Any) -> Iterator[Suspicion]:
    """Yield suspicions in a server's definition of one item."""
    return _in_value(item, (), strict=True)


def result_suspicions(result: Any, path: Path = ("result",)) -> Iterator[Suspicion]:
    """Yield suspicions in the result of a call."""
    return _in_value(result, path, strict=False)


def _in_value(value: Any, path: Path, *, strict: bool) -> Iterator[Suspicion]:
    """Check every key and every string; with `strict`, for definitions, also the look of names."""
    for at, one in walk(value, path):
        if isinstance(one, str):
            yield from _in_text(one, at, strict)
            if strict and at[-1:] == ("name",) and (why := describe_disguise(one)):
                yield Suspicion(DISGUISED, at, f"{one!a} {why}")
        elif isinstance(one, dict):
            for name in one:
                yield from _in_text(name, (*at, name), strict)
            for name, why in _of_names(one) if strict else ():
                yield Suspicion(DISGUISED, (*at, name), f"{name!a} {why}")


def _of_names(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names that look like others, each with the reason."""
    yield from ((name, why) for name in names if (why := describe_disguise(name)))
    yield from ((name, f"looks like {first!a}") for first, name in find_lookalikes(names))


def _in_text(text: str, path: Path, strict: bool) -> Iterator[Suspicion]:
    if _NAME.fullmatch(text):
        return  # most keys
    yield from (Suspicion(HIDDEN, path, why) for why in describe_hidden(text, strict=strict))
    plain = normalize_visible(text)
    lowered = plain.lower()
    for what, signs, pattern in _ORDERS:
        if any(sign in lowered for sign in signs) and (found := pattern.search(plain)):
            yield Suspicion(ORDERS, path, f"{what}: {_quote_start(found[0])}")
    if strict and (found := _COMMENT.search(plain)):
        yield Suspicion(ORDERS, path, f"has a comment, which people do not see: {_quote_start(found[0])}")
    if "://" not in lowered:
        return
    for found in _LINK.finditer(plain):
        if _FILLED_IN.search(found[1] or found[2]):
            yield Suspicion(LEAKS, path, f"has a link to be filled in with data: {_quote_start(found[1] or found[2])}")
            break
    if found := _COLLECTS.search(plain):
        yield Suspicion(LEAKS, path, f"has a link to a service that collects requests: {_quote_start(found[0])}")


def _quote_start(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…")
