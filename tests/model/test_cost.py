"""The cost of definitions and results to a model."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_tape.model.cost import cost, definition, definitions, media, result_texts, tokens


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("Привет", 3), ("東京", 2), ("ab é", 2), ("🎉", 1)],
)
def test_tokens_are_estimated_by_characters(text: str, number: int) -> None:
    assert tokens(text) == number


def test_bytes_are_those_of_utf_8() -> None:
    assert cost("東京").bytes == 6
    assert cost("\ud800").bytes == 3  # a lone surrogate, from a JSON escape


def test_a_definition_has_the_members_that_hosts_pass_on() -> None:
    tool = {"name": "t", "title": "T", "inputSchema": {}, "description": "D", "icons": ["x" * 999], "annotations": {}}
    assert definition(tool) == '{"name":"t","description":"D","inputSchema":{}}'
    assert definitions([tool, tool]).bytes == 2 * len(definition(tool))
    assert definition(None) == definition([]) == "{}"


@pytest.mark.parametrize(
    ("result", "texts"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, ["a", "b"]),
        ({"content": [{"type": "text", "text": "{}"}], "structuredContent": {"a": 1}}, ["{}"]),
        ({"content": [], "structuredContent": {"a": 1}}, ['{"a":1}']),
        ({"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "c"}}]}, ["c"]),
        ({"content": [{"type": "resource_link", "uri": "a:b"}]}, ['{"type":"resource_link","uri":"a:b"}']),
        ({"content": [{"type": "image", "data": "AAAA"}]}, []),
        ({"content": [None, 1, "x", {"text": 1}]}, []),
        ({"content": "x"}, []),
        (None, []),
        ([1], []),
    ],
)
def test_a_result_counts_by_its_content_for_a_model(result: Any, texts: list[str]) -> None:
    assert [*result_texts(result)] == texts


def test_images_and_files_are_counted_not_measured() -> None:
    image, file = {"type": "image", "data": "AAAA"}, {"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}}
    assert media({"content": [image, file, {"type": "text", "text": "data"}, None, 7, "data"]}) == 2
    assert media(None) == media({"content": {}}) == 0
