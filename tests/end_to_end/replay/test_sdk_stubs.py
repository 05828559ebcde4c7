"""Real SDK clients with the two stubs of the manual."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import provision
from tests.support.sdk import alone, call, outcomes

MANUAL = (provision.ROOT / "docs" / "stubs.md").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("client", provision.ALL_CLIENTS)
def test_a_client_connects_to_the_stubs_of_the_manual(
    client: str, sdk_client: Callable[[str, str], list[str]], tmp_path: Path
) -> None:
    stubs = re.findall(r"^echo '(.*)' >>? stubs\.jsonl$", MANUAL, re.M)
    (tmp_path / "stubs.jsonl").write_text("\n".join(stubs))
    steps = json.dumps([{"do": "tools"}, call("search", q="x", more=True), call("search", q="y")])
    replayed = alone(
        sdk_client(client, "time"), ["replay", str(tmp_path / "stubs.jsonl")], tmp_path, CLIENT_STEPS=steps
    )
    texts = [content[0]["text"] for content in outcomes(json.loads(replayed.output))]
    assert len(stubs) == 2 and texts == ["three hits", '{"hits":[]}']
