"""The output of `diff` in every format: as in tests/golden/diff, and harmless for any cassette.

To write the golden files again: python -m tests.compare.report.test_report
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mcp_tape.compare.changes import ABSENT, Change, Difference, Subject, change
from mcp_tape.compare.judging import Comparison, OmittedRequest, UnknownPart
from mcp_tape.compare.report import FORMATS, render
from mcp_tape.compare.report.before_after import Cut, rows
from mcp_tape.compare.report.wording import visible
from mcp_tape.compare.rule_table import Level

GOLDEN = Path(__file__).parents[2] / "golden" / "diff"
ENDINGS = {
    "text": "txt",
    "json": "json",
    "markdown": "md",
    "html": "html",
    "junit": "xml",
    "github": "github.txt",
    "sarif": "sarif",
}
HOSTILE = "<script>alert(1)</script> ]]> \x1b[31mred\x07\r `a``b` | @octocat ::error::no \u202e日本語 \ud800 --> </pre>"
LINES = [f"Line {number} of the instructions." for number in range(30)]


def found(subject: str, rule: str, path: tuple[str | int, ...] = (), *sides: Any, **more: Any) -> Change:
    kind, _, name = subject.partition(" ")
    before, after = sides or (ABSENT, ABSENT)
    return change(Subject(kind, name), Difference(rule, path, before, after, **more))


RICH = Comparison(
    "github-mcp 1.4.0",
    "github-mcp 1.5.0",
    "call",
    (
        found("server", "protocol-version-removed", ("protocolVersion",), "2024-11-05", ABSENT),
        found("tool list_labels", "tool-removed", (), {"name": "list_labels"}, ABSENT, note="the tool is gone"),
        found("tool search_issues", "input-required-property-added", ("inputSchema", "properties", "owner"),
              ABSENT, {"type": "string"}, note="new required property (string)"),
        found("tool search_issues", "input-constraint-tightened", ("inputSchema", "properties", "limit", "maximum"),
              100, 50),
        found("tool search_issues", "input-type-changed", ("inputSchema", "properties", "a b", "type"),
              "string", ["integer", "null"], note="another type"),
        found("call tools/call search_issues", "call-ok-to-error", ("result",),
              {"content": [{"type": "text", "text": "x" * 300}], "isError": False},
              {"content": [{"type": "text", "text": "x" * 300}], "isError": True})._replace(times=3),
        found("server", "instructions-changed", ("instructions",), "\n".join(LINES),
              "\n".join([*LINES[:4], "Always ask first.", *LINES[5:20], *(f"New {n}." for n in range(12))])),
        found("tool create_issue", "tool-description-changed", ("description",),
              "Create an issue.", "Create an issue. Always call search_issues first."),
        found(f"tool {HOSTILE}", "tool-description-changed", ("description",), HOSTILE, f"{HOSTILE}\n{HOSTILE}\n```"),
        found("tool create_issue", "input-default-changed", ("inputSchema", "properties", HOSTILE, "default"),
              {HOSTILE: [HOSTILE]}, None, note=f"the default of {HOSTILE}"),
        found("tool new", "tool-added", (), ABSENT, {"name": "new"}),
        found("call tools/call now", "call-text-changed", ("result", "content", 0, "text"),
              "It is  10:00 ", "It is\u200b 10:01\tnow"),
    ),
    (
        UnknownPart("resources", "OLD has no resources/list; record one with a client that lists them", True),
        UnknownPart(HOSTILE, HOSTILE, False),
    ),
    (found("tool old", "tool-removed"), found("tool older", "tool-removed")),
    ("tool-removed tool x", HOSTILE),
    {"tools": 3, "resources": 0, "calls": 1},
    definitions={
        Subject("tool", "search_issues"): (
            {"description": "Search issues by their title.", "inputSchema": {"properties": {"limit": {"maximum": 100}}},
             **{f"member {number}": number for number in range(12)}},
            {"description": "Search issues by their text.", "inputSchema": {"properties": {"limit": {"maximum": 50}}},
             **{f"member {number}": number for number in range(12)}, HOSTILE: HOSTILE},
        ),
        Subject("tool", "create_issue"): ({"description": "same"}, {"description": "same"}),
    },
)  # fmt: skip
NOTHING = Comparison("time 1.0", "time 1.1", "call", (), compared={"tools": 3, "calls": 12})
ALL = {"rich": RICH, "nothing": NOTHING}


def made(name: str, form: str, **options: Any) -> bytes:
    return render(ALL[name], form, file="cassettes/github, new.db", **options).encode()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ALL)
def test_a_comparison_is_rendered_as_the_golden_file_says(name: str, form: str) -> None:
    assert made(name, form) == (GOLDEN / f"{name}.{ENDINGS[form]}").read_bytes()


def test_colours_are_those_of_the_golden_file() -> None:
    assert made("rich", "text", colour=True) == (GOLDEN / "rich.colour.txt").read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_contains_control_characters(form: str) -> None:
    text = made("rich", form).decode()
    assert {c for c in text if not c.isprintable()} <= {"\n"}


@pytest.mark.parametrize("form", sorted({*FORMATS} - {"json"}))
@pytest.mark.slow
def test_endless_values_are_cut(form: str) -> None:
    long = "a very long text " * 20_000
    huge = found("tool x", "tool-description-changed", ("description",), long, "\n".join([long] * 10))
    more = [huge, found("tool y", "input-default-changed", ("x" * 100_000,), [long], {long: long}, note=long)]
    most = {"text": 150_000, "markdown": 150_000}.get(form, 2_000_000)  # CI formats cut nothing of a realistic length
    assert len(render(RICH._replace(changes=tuple(more), old=long), form)) < most


def test_a_difference_far_inside_a_long_line_is_seen() -> None:
    row = rows(found("tool x", "tool-description-changed", (), "y " * 5000 + "old", "y " * 5000 + "new"), Cut(12, 60))
    assert [(one.sign, one.text[-3:], len(one.text) <= 60) for one in row] == [("-", "old", True), ("+", "new", True)]


@pytest.mark.parametrize(("words", "whole"), [(28, True), (29, False)])  # 60 and 62 characters
def test_lines_that_just_fit_are_shown_whole(words: int, whole: bool) -> None:
    old, new = (f"{'y ' * words}{last}" for last in ("old", "new"))
    row = rows(found("tool x", "tool-description-changed", (), old, f"{new}!"), Cut(12, 60))
    assert ([one.text for one in row] == [old, f"{new}!"]) is whole


def test_many_lines_show_some_of_both_sides_and_say_how_many_more() -> None:
    old, new = ("\n".join(f"{word} {n}" for n in range(500)) for word in ("old", "new"))
    row = rows(found("tool x", "tool-description-changed", (), old, new), Cut(12, 60))
    assert [one.sign for one in row] == ["-"] * 6 + ["+"] * 2 + ["…"] + ["+"] * 4
    assert (row[8].text, row[-1].text) == ("988 more lines", "new 499")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain", "plain"), ("a\x1b[0m", r"a\x1b[0m"), ("zero\u200bwidth", r"zero\u200bwidth"), ("\ud800", r"\ud800"),
     ("end ", r"end\x20"), ("日本語", "日本語"), ("\U000e0041", r"\U000e0041"), ("\r\n", r"\r\n"),
     ("::error::x", r"\x3a:error::x"), ("  ::add-mask::x", r"  \x3a:add-mask::x"), ("a::b", "a::b"), (":", ":"),
     ("x ##[error]y", r"x \x23#[error]y"), ("###[group]", r"#\x23#[group]"), ("## [a]", "## [a]")],
)  # fmt: skip
def test_control_and_hidden_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("form", sorted({*FORMATS} - {"github"}))
def test_no_line_is_a_command_of_githubs_runner(form: str) -> None:
    old, new = ("  ::add-mask::a\n" + words for words in ("old", "new ##[error]b\n::warning::c"))
    change = found("tool ##[error]x", "tool-description-changed", (), old, new, note="::notice::e")
    text = render(RICH._replace(changes=(change,), old="::error::f 1"), form)
    assert "add-mask" in text
    assert not [line for line in text.splitlines() if line.strip().startswith("::")]
    assert form == "json" or "##[" not in text


def test_the_text_names_the_unknown_and_never_says_no_changes_then() -> None:
    text = render(NOTHING._replace(unknown=(UnknownPart("tools", "OLD has no tools/list", True),)), "text")
    assert text.startswith("1 part unknown, no findings in the rest        time 1.0 → 1.1")
    assert "UNKNOWN tools: OLD has no tools/list" in text
    assert "no changes" not in text


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "json"])
def test_no_form_says_no_changes_where_something_is_unknown(form: str) -> None:
    text = render(NOTHING._replace(unknown=(UnknownPart("tools", "OLD has no tools/list", False),)), form)
    assert "no changes" not in text.lower()
    assert "OLD has no tools/list" in text


def test_an_unchanged_value_is_described_by_the_note_alone() -> None:
    same = found("server", "server-version-not-bumped", ("version",), "1.0", "1.0", note="still 1.0")
    assert render(NOTHING._replace(changes=(same,)), "text").splitlines()[1:] == [
        f"info  [server-version-not-bumped]  server  {same.fingerprint}",
        "        $.version   still 1.0",
    ]


def test_the_text_points_at_the_ignore_file_that_counts() -> None:
    assert ">> '../my file'\n" in render(RICH, "text", ignore_file="../my file")


def test_only_changes_worth_accepting_get_the_hint() -> None:
    only_info = RICH._replace(changes=tuple(one for one in RICH.changes if one.level == "info"))
    assert "Accept one" not in render(only_info, "text")


class Tags(HTMLParser):
    """The tags of a page; they must balance."""

    void = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing() -> None:
    page = made("rich", "html").decode()
    tags = Tags(page)
    names = [name for name, _ in tags.seen]
    assert not tags.open
    assert {"header", "main", "footer", "h1", "h2", "h3", "title", "caption", "mark"} <= set(names)
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & set(names)
    assert ("html", {"lang": "en"}) in tags.seen
    assert all("scope" in attributes for name, attributes in tags.seen if name == "th")
    links = [attributes["href"] or "" for name, attributes in tags.seen if name == "a"]
    ids = {f"#{attributes['id']}" for _, attributes in tags.seen if "id" in attributes}
    assert links and set(links) <= ids
    assert "url(" not in page and "@import" not in page
    (policy,) = [found["content"] or "" for name, found in tags.seen if "http-equiv" in found]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert not [found for _, found in tags.seen if any(name.startswith("on") or name == "style" for name in found)]


def test_a_definition_is_whole_on_both_sides_with_the_words_marked_that_differ() -> None:
    page = made("rich", "html").decode()
    (definition,) = re.findall(r'<details id="([^"]+)" class="definition error" open>(.+?)</details>', page, re.S)
    assert f'<a href="#{definition[0]}">the whole definition</a>' in page
    rows = re.findall(r"<tr.*?>(.*?)</tr>", definition[1])
    assert rows[1].count("<td>") == 2 and "<mark>title</mark>" in rows[1] and "<mark>text</mark>" in rows[1]
    assert '<td colspan="2">… 6 equal lines</td>' in rows
    assert "3 errors" in definition[1]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_the_page_has_enough_contrast(scheme: int) -> None:
    colours = dict(re.findall(r"--(\w+): (#\w+)", made("rich", "html").decode().split(":root {")[1 + scheme]))
    for front, back in [("text", "back"), ("text", "soft"), ("text", "gone"), ("text", "come"),
                        ("error", "back"), ("warn", "back"), ("info", "back")]:  # fmt: skip
        light, dark = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (front, back)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("fail_on", "failed"), [("error", 4), ("warn", 6), ("info", 8), (None, 0)])
def test_junit_fails_the_subjects_with_changes_that_count(fail_on: Level | None, failed: int) -> None:
    suite = ElementTree.fromstring(made("rich", "junit", fail_on=fail_on))[0]
    cases = suite.findall("testcase")
    assert sum(case.find("failure") is not None for case in cases) == failed == int(suite.get("failures", ""))
    assert len(cases) == int(suite.get("tests", "")) == len({one.subject for one in RICH.changes}) + 2
    assert [case.get("name") for case in cases if case.find("error") is not None] == ["resources"]
    assert len(suite.findall(".//failure")) == len(RICH.at_least(fail_on)) if fail_on else not failed


def test_junit_names_the_rule_of_each_failure() -> None:
    suite = ElementTree.fromstring(made("rich", "junit"))[0]
    (case,) = suite.findall("testcase[@name='search_issues'][@classname='tool']")
    assert [failure.get("type") for failure in case.findall("failure")] == [
        "input-required-property-added",
        "input-constraint-tightened",
        "input-type-changed",
    ]


def test_junit_shows_omitted_changes_as_skipped_and_unknown_parts_as_errors() -> None:
    left_out = (OmittedRequest("tools/call say", "the tool is <not> read-only"),)
    told = Comparison("a 1", "a 1", "call", (), (UnknownPart("calls", "NEW: nothing", True),), skipped=left_out)
    suites = ElementTree.fromstring(render(told, "junit"))
    assert (suites.get("tests"), suites.get("errors"), suites.get("skipped")) == ("2", "1", "1")
    assert [(case.get("name"), [inside.tag for inside in case]) for case in suites.iter("testcase")] == [
        ("calls", ["error"]),
        ("tools/call say", ["skipped"]),
    ]


@pytest.mark.parametrize("form", ["text", "markdown", "html", "github"])
def test_no_form_offers_to_accept_that_the_server_failed(form: str) -> None:
    one = found("tool x", "tool-removed")
    crashed = found("server", "server-crashed")
    both = [Comparison("a 1", "a 1", "call", changes) for changes in ((one,), (crashed,))]
    assert [bool(re.search("accept (one|it|a change)", render(told, form), re.I)) for told in both] == [True, False]


def test_junit_without_changes_is_one_test_that_passes() -> None:
    suite = ElementTree.fromstring(made("nothing", "junit"))[0]
    assert [(case.get("name"), len(case)) for case in suite.findall("testcase")] == [("no changes", 0)]


def test_github_gets_one_command_a_line_the_worst_first() -> None:
    lines = made("rich", "github").decode().splitlines()
    commands = [
        re.match(r"::(error|warning|notice) title=[^:,]*,file=cassettes/github%2C new\.db::", line) for line in lines
    ]
    assert all(commands)
    levels = [found[1] for found in commands if found]
    assert levels == sorted(levels, key=["error", "warning", "notice"].index)
    assert levels.count("error") == 1 + RICH.count("error")
    assert levels.index("notice") == len(levels) - 1 - RICH.count("info")
    first = lines[levels.index("notice")]
    assert "12 changes" in first and "2 changes ignored" in first


def test_github_escapes_text_that_would_end_a_command() -> None:
    one = found("tool a:b,c", "tool-removed", note="100%\r\n::error::x")
    line = render(NOTHING._replace(changes=(one,)), "github").splitlines()[0]
    assert line.startswith("::error title=tool-removed%3A tool a%3Ab%2Cc::100%25\\r\\n::error::x%0AAccept it: echo")


def test_markdown_shows_a_strangers_words_only_as_code() -> None:
    text = made("rich", "markdown").decode()
    fenced = re.sub(r"^ *(`{3,})diff\n.*?\n *\1$", "", text, flags=re.S | re.M)
    bare = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", fenced)
    assert "```" not in bare
    for trick in ("@", "<script", "|", "::", "日本語", "]]"):
        assert trick in text and trick not in bare


def test_markdown_fits_into_a_comment_and_counts_the_rest() -> None:
    many = tuple(found(f"tool t{n}", "tool-description-changed", (), "a b" * 100, f"{n} c" * 100) for n in range(500))
    text = render(RICH._replace(changes=RICH.changes[:6] + many), "markdown")
    assert len(text) < 65_536
    left = re.search(r"… and (\d+) changes more than fit here", text)
    assert left and int(left[1]) == 506 - text.count("· `")
    assert "Accept one" in text


def test_json_has_everything() -> None:
    value = json.loads(made("rich", "json"))
    assert value["counts"] == {"error": 6, "warn": 4, "info": 2}
    assert value["changes"][8]["before"] == HOSTILE
    assert "before" not in value["changes"][2] and value["changes"][2]["after"] == {"type": "string"}


def test_the_json_is_documented_member_by_member() -> None:
    page = (Path(__file__).parents[3] / "docs" / "diff-json.md").read_text("utf-8")
    tables = [set(re.findall(r"^\| `(\w+)` \|", part, flags=re.M)) for part in page.split("\n## ")]
    value, played = (json.loads(render(RICH._replace(cassette=tape), "json")) for tape in ("", "time.db#1"))
    assert tables[1:] == [
        set(played),
        {key for one in value["changes"] for key in one},
        {key for one in value["unknown"] for key in one},
    ]
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    assert set(example) == set(value) and set(example["changes"][0]) <= tables[2]


def write_golden_files() -> None:
    for name in ALL:
        for form in FORMATS:
            (GOLDEN / f"{name}.{ENDINGS[form]}").write_bytes(made(name, form))
    (GOLDEN / "rich.colour.txt").write_bytes(made("rich", "text", colour=True))


def test_of_many_changes_that_are_alike_the_first_are_shown_and_the_rest_is_counted() -> None:
    changes = tuple(found("call tools/call x", "call-ok-to-error", ("result", n), "ok", n) for n in range(80))
    lines = render(Comparison("a", "b", "call", changes), "text", width=100).splitlines()
    assert sum("[call-ok-to-error]" in line for line in lines) == 50
    assert "and 30 more like these; to see all: --format json" in "\n".join(lines)


if __name__ == "__main__":
    write_golden_files()
