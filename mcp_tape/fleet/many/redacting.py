"""redact_one: hides secrets in one cassette after it was recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...cassette import file
from ...cassette.change.hide_secrets import HiddenCounts, hide, would_hide
from ...cassette.query.integrity import Finding
from ...cassette.reader import Cassette
from ...console import say
from ...errors import count
from ...redaction.diagnostics import Rules
from ...redaction.redactor import Redactor
from .checking import redactor_here
from .results import Result, Watch, run_for_result, watch_nothing

STILL = "it is still being recorded, with the recorder's own rules: run this again when the recording has ended"


class RedactTask(NamedTuple):
    """The settings for all cassettes. `rules`: redaction rules besides the secrets of the environment."""

    rules: Rules = Rules()
    dry: bool = False


def redact_one(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    redact_keys: Sequence[str] = (),
    redact_paths: Sequence[str] = (),
    redact_values: Sequence[str] = (),
    redactions: Sequence[Callable[[str], str]] = (),
) -> Result:
    """Hide the secrets in one cassette, or only count them: see docs/api.md."""
    rules = Rules(tuple(redact_keys), tuple(redact_paths), tuple(redact_values), tuple(redactions))
    return redact_cassette(os.fspath(path), RedactTask(rules, dry_run))


def redact_cassette(path: str, task: RedactTask, watch: Watch = watch_nothing) -> Result:
    """Redact one cassette."""
    return run_for_result("redact", path, lambda: [path], lambda: _redact(path, task, watch))


def _redact(path: str, task: RedactTask, watch: Watch) -> Result:
    with Cassette(path) as cassette:
        progress = watch(cassette)  # counts its frames
    with progress as seen:
        done = (
            would_hide(path, redactor_here(task.rules), seen)
            if task.dry
            else _hide(path, redactor_here(task.rules), seen)
        )
    kinds = sorted(done.kinds.items())
    return Result(
        "redact",
        path,
        counts={"values": done.kinds.total(), "frames": done.frames},
        findings=tuple(Finding(kind, count(number, "value"), level="info") for kind, number in kinds),
        notes=(summary(path, done, task.dry), *([STILL] if done.recorded else [])),
        details=facts(done, task.dry),
    )


def _hide(path: str, rules: Redactor, progress: Callable[[int], None]) -> HiddenCounts:
    try:
        return hide(path, rules, progress)
    except (KeyboardInterrupt, SystemExit):
        if file.header_says_wal(path):  # it was in use, so it is changed in place
            say(f"stopped: some of it is hidden in {path}, but may still be in the file; run this again to finish it")
        raise


def facts(done: HiddenCounts, dry: bool) -> dict[str, object]:
    """The counts for JSON."""
    return {"frames": done.frames, "hidden": dict(done.kinds), "dry_run": dry, "recorded": done.recorded}


def summary(path: str, done: HiddenCounts, dry: bool) -> str:
    values = done.kinds.total()
    if not values and not done.frames:
        return f"nothing to hide in {path}"
    what = count(values, "value") if values else "text without placeholders"  # by a function
    verb = "would be hidden" if dry else "hidden"
    return f"{what} {verb} in {path}, in {count(done.frames, 'frame')}"
