"""Merging: rows and XML of several runs combined as if from one; and inputs that cannot be merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mcp_tape.fleet.many.merging import MissingCassettes, ReportError, merge, render_merged
from tests.support.many import many, rows, timeless
from tests.support.reading import invoke


def row(cassette: str, **more: Any) -> dict[str, Any]:
    known = {
        "row": 1,
        "command": "check",
        "cassette": cassette,
        "hash": "ab",
        "shard": "1/2",
        "of": 2,
        "status": "passed",
    }
    return known | {"code": 0, "counts": {}, "findings": [], "seconds": 0.1, "mcp_tape": "1"} | more


def file(place: Path, *found: dict[str, Any]) -> str:
    path = place / f"{len(list(place.iterdir()))}.json"
    path.write_text("".join(json.dumps(one) + "\n" for one in found))
    return str(path)


FAILED: dict[str, Any] = {"status": "failed", "code": 1, "findings": [{"what": "secret", "message": "found"}]}


def test_rows_of_shares_are_put_together_in_the_order_of_their_names(tmp_path: Path) -> None:
    merged = merge([file(tmp_path, row("b.db", shard="2/2")), file(tmp_path, row("a.db", **FAILED))])
    assert [entry.cassette for entry in merged.entries] == ["a.db", "b.db"]
    assert (merged.code, merged.repeats, merged.missing) == (1, 0, ())
    assert [one["cassette"] for one in rows(render_merged(merged))] == ["a.db", "b.db"]


def test_a_repeat_counts_once_in_any_order_and_company(tmp_path: Path) -> None:
    again = row("a.db", seconds=7.5, shard=None, of=1)
    merged = merge([file(tmp_path, row("a.db"), row("b.db")), file(tmp_path, again, again)])
    assert (len(merged.entries), merged.repeats, merged.differing) == (2, 2, ())


@pytest.mark.parametrize("first", [True, False])
def test_of_two_results_the_worse_counts(tmp_path: Path, first: bool) -> None:
    good, bad = file(tmp_path, row("a.db", of=1)), file(tmp_path, row("a.db", of=1, **FAILED))
    merged = merge([bad, good] if first else [good, bad])
    assert [entry.status for entry in merged.entries] == ["failed"] == [entry.status for entry in merged.differing]
    assert merged.code == 1


def test_the_same_cassette_under_two_commands_is_two_results(tmp_path: Path) -> None:
    merged = merge([file(tmp_path, row("a.db", of=1), row("a.db", of=1, command="redact"))])
    assert [entry.key for entry in merged.entries] == [("check", "a.db"), ("redact", "a.db")]


def test_missing_cassettes_are_named_and_fail(tmp_path: Path) -> None:
    merged = merge([file(tmp_path, row("a.db", of=5, shard="2/3")), file(tmp_path)])
    assert merged.missing == (MissingCassettes("check", 4, ("1/3", "3/3")),)
    assert merged.code == 1


def test_the_exit_code_is_the_highest(tmp_path: Path) -> None:
    bad = row("c.db", status="unreadable", code=3, of=3)
    assert merge([file(tmp_path, row("a.db", of=3), row("b.db", of=3, **FAILED), bad)]).code == 3


def test_an_array_of_rows_is_as_good_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps([row("a.db"), row("b.db")], indent=2))
    assert len(merge([str(path)]).entries) == 2


WRONG = {
    "nothing": "",
    "no JSON": "words",
    "another command's JSON": '{"file":"a.db","what":"secret"}',
    "a newer row": json.dumps(row("a.db", row=2)),
    "no status": json.dumps(row("a.db", status="fine")),
    "no share": json.dumps(row("a.db", shard="5/4")),
    "no number": json.dumps(row("a.db", code="three")),
    "no findings": json.dumps(row("a.db", findings={"a": 1})),
    "odd findings": json.dumps(row("a.db", findings=["a"])),
    "deep": "[" * 100_000,
    "broken XML": "<testsuites>",
    "entities": '<!DOCTYPE x [<!ENTITY a "b">]><testsuites>&a;</testsuites>',
    "XML without results": "<testsuites/>",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_another_kind_of_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report"
    path.write_text(text)
    with pytest.raises(ReportError, match="report"):
        merge([str(path)])


def test_a_file_that_is_not_there_and_files_of_two_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="cannot read"):
        merge([str(tmp_path / "missing")])
    xml = tmp_path / "report.xml"
    xml.write_text("<testsuites/>")
    with pytest.raises(ReportError, match=r"is JSON and .*report.xml is JUnit XML; merge files of one kind"):
        merge([file(tmp_path, row("a.db")), str(xml)])


@pytest.mark.parametrize("form", ["json", "junit"])
@pytest.mark.slow
def test_merged_shares_equal_one_run(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    many(tmp_path / "tapes", 12)
    whole = invoke("check", "tapes", "--jobs", "1", "--format", form)
    shares = [Path(f"{number}.part") for number in (1, 2, 3)]
    for number, path in enumerate(shares, 1):
        path.write_text(invoke("check", "tapes", "--shard", f"{number}/3", "--format", form).stdout)
    done = invoke("merge-reports", *shares, *shares[:2], "-o", "all")
    assert done.exit_code == whole.exit_code == 3
    assert "there twice" in done.stderr and "in no report" not in done.stderr
    assert comparable(Path("all").read_text(), form) == comparable(whole.stdout, form)


def comparable(text: str, form: str) -> Any:
    """A report without times, shares, order and white space."""
    if form == "json":
        return sorted([one | {"shard": None, "seconds": 0} for one in rows(text)], key=lambda one: str(one["cassette"]))
    root = ElementTree.fromstring(timeless(text))
    for properties in root.iter("properties"):
        for share in [one for one in properties if one.get("name") == "mcp-tape.shard"]:
            properties.remove(share)
    suites = [ElementTree.canonicalize(ElementTree.tostring(one), strip_text=True) for one in root]
    return root.attrib, sorted(suites)


def test_junit_of_a_run_over_a_few_is_merged_by_name(tmp_path: Path) -> None:
    case = '<testcase name="a">{}</testcase>'
    text = f'<testsuites><testsuite name="{{}}" tests="1" failures="{{}}">{case}</testsuite></testsuites>'
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text(text.format("one", 0, ""))
    bad.write_text(text.format("two", 1, '<failure message="no"/>'))
    merged = merge([str(good), str(bad)])
    assert ([entry.cassette for entry in merged.entries], merged.code) == (["one", "two"], 1)
    assert ElementTree.fromstring(render_merged(merged)).get("failures") == "1"


def test_unencodable_text_and_invalid_numbers_do_no_harm(tmp_path: Path) -> None:
    odd = row("a.db", of=1, findings=[{"message": "half a pair: \ud800"}], status="failed", code=1)
    assert rows(render_merged(merge([file(tmp_path, odd)])))[0]["cassette"] == "a.db"
    path = tmp_path / "odd.xml"
    path.write_text('<testsuite name="a" tests="many" failures="²"><testcase name="b"/></testsuite>')
    assert b'tests="0" failures="0"' in render_merged(merge([str(path)]))
