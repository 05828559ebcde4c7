"""One of the two versions that are compared: a server as it was recorded, or as it answers now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..cassette.reader import Cassette
from ..replay.selection import select
from .recording import Recording, newest_handshake
from .surface import SURFACE, Answer, Surface, read


class Version(NamedTuple):
    """What is known of a version. No `recording`: it was only asked what it offers."""

    title: str
    surface: Surface
    recording: Recording | None = None


def recorded(cassette: Cassette, which: str = "latest", ignore_paths: Sequence[str] = ()) -> Version:
    """The version on a cassette: its newest session, all, or one by its number."""
    return of_sessions(cassette, select(cassette, which).sessions, ignore_paths)


def of_sessions(cassette: Cassette, sessions: Sequence[int], ignore_paths: Sequence[str] = ()) -> Version:
    recording = Recording(cassette, sessions, ignore_paths)
    asked = [one for one in recording.asked() if one.method in SURFACE and one.answer is not None]
    answers = [recording.about(one) for one in asked]
    surface = read(answers, recording.places_of)
    if surface.capabilities is None:
        answers += newest_handshake(cassette, min(sessions))
        surface = read(answers, recording.places_of)
    session = cassette.session(sessions[0])
    name, version = surface.name or session.server_name, surface.version or session.server_version
    surface = surface._replace(name=name, version=version)
    return Version(" ".join(filter(None, (name, version))) or cassette.path, surface, recording)


def listed(answers: Sequence[Answer], title: str) -> Version:
    """A version that was only asked what it offers."""
    surface = read(answers, lambda method: [])
    return Version(" ".join(filter(None, (surface.name, surface.version))) or title, surface)
