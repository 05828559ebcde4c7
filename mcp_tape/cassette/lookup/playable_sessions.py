"""Sessions that can be played: the newest, those of one run, those of an era."""

from __future__ import annotations

from ...light import NamedTuple
from ...wire import match, protocol
from ...wire.frames import KILLED
from .. import file, schema
from ..functions import answer_of, of_method
from ..reader import OF_SESSION

TYPE_CHECKING = False  # as in the package's __init__
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...wire.frames import Message
    from ..reader import Cassette

_BY_CLIENT = f"rpc_id IS NOT NULL AND {schema.BY_CLIENT}"
_AT_ONCE = 500  # values: https://www.sqlite.org/limits.html#max_variable_number


def newest_session(cassette: Cassette) -> int:
    """The number of the newest session; 0 if there is none."""
    ((number,),) = cassette.rows("SELECT coalesce(max(id), 0) FROM sessions")
    return int(number)


def numbered_sessions(cassette: Cassette, until: int) -> list[tuple[int, int | None]]:
    """Every session up to one, newest first, and the session that it extends."""
    return cassette.rows("SELECT id, extends FROM sessions WHERE id <= ? ORDER BY id DESC", (until,))


def labels(cassette: Cassette) -> list[str | None]:
    """The labels of all servers on a cassette; None is that of sessions without one."""
    return [label for (label,) in cassette.rows("SELECT DISTINCT label FROM main.sessions ORDER BY label")]


def are_several(cassette: Cassette) -> bool:
    """Return whether a cassette has more than one session, of any server."""
    return len(cassette.rows("SELECT id FROM main.sessions LIMIT 2")) > 1


def targets_beside(cassette: Cassette, session: int, until: int) -> tuple[str, list[tuple[int, str]]]:
    """The target of a session, and the others on the cassette: each with the newest session that has it.

    Sessions of its own run do not count: a run may have several servers.
    """
    ((target, run),) = cassette.rows("SELECT target, run FROM sessions WHERE id = ?", (session,))
    sql = """SELECT max(id), target FROM sessions WHERE id <= ? AND extends IS NULL AND target <> ?
        AND (run IS NULL OR run IS NOT ?) GROUP BY target ORDER BY 1 DESC"""
    return target, cassette.rows(sql, (until, target, run))


def sessions_with_other_keys(cassette: Cassette, sessions: Sequence[int]) -> set[int]:
    """The sessions whose keys were made by another version's rules."""
    return _select_sessions(cassette, sessions, f"key_version <> {match.KEY_VERSION}")


def without_bodies(cassette: Cassette, sessions: Sequence[int]) -> set[int]:
    """The sessions that were recorded without message bodies."""
    return _select_sessions(cassette, sessions, "recorder LIKE '% --bodies %'")


def extending_sessions(cassette: Cassette, sessions: Sequence[int]) -> dict[int, int]:
    """The sessions that extend another one, each with that one's number."""
    numbers = _select_sessions(cassette, sessions, "extends IS NOT NULL")
    return {number: cassette.session(number).extends or 0 for number in sorted(numbers)}


def _select_sessions(cassette: Cassette, sessions: Sequence[int], which: str) -> set[int]:
    found: set[int] = set()
    for first in range(0, len(sessions), _AT_ONCE):
        some = sessions[first : first + _AT_ONCE]
        sql = f"SELECT id FROM sessions WHERE id IN ({', '.join('?' * len(some))}) AND {which}"
        found |= {number for (number,) in cassette.rows(sql, some)}
    return found


def knows_method(cassette: Cassette, method: str, until: int) -> bool:
    """Return whether any session up to one has a client request with a method."""
    ours = f"id <= ? AND id >> {schema.BITS} IN (SELECT id FROM sessions)"
    sql = f"SELECT EXISTS (SELECT 1 FROM derived WHERE {of_method(method)} AND {_BY_CLIENT} AND {ours})"
    return bool(cassette.rows(sql, (file.storable_text(method), schema.row_ids(until)[1]))[0][0])


def finished_sessions(cassette: Cassette, until: int | None = None) -> Iterator[int]:
    """The sessions that can be played and are closed, newest first."""
    sql = "SELECT id FROM sessions WHERE extends IS NULL AND ended_at IS NOT NULL AND id <= ? ORDER BY id DESC"
    rows = cassette.rows(sql, (newest_session(cassette) if until is None else until,))
    return (session for (session,) in rows if has_an_exchange(cassette, session))


def whole_sessions(cassette: Cassette) -> Iterator[int]:
    """Finished sessions whose recorder was not killed and could write: the client of another may have asked for more.

    If one session of a run is incomplete, none of the run counts: the others lack its messages too.
    """
    cut = "FROM sessions WHERE incomplete = :killed OR incomplete LIKE 'cannot write %'"
    sql = f"SELECT id {cut} OR run IN (SELECT run {cut})"
    short = {number for (number,) in cassette.rows(sql, {"killed": KILLED})}
    return (session for session in finished_sessions(cassette) if session not in short)


class RecordedRun(NamedTuple):
    """A recorded run: the start of its first session, and its playable sessions in order."""

    id: str
    began: str
    sessions: list[int]
    label: str | None = None  # of their server, if the cassette has several


def run_of(cassette: Cassette, session: int, until: int | None = None) -> RecordedRun | None:
    """The run that a session belongs to."""
    ((name,),) = cassette.rows("SELECT run FROM sessions WHERE id = ?", (session,))
    return None if name is None else find_run(cassette, str(name), until)


def find_run(cassette: Cassette, name: str, until: int | None = None) -> RecordedRun | None:
    sql = "SELECT id, started_at FROM sessions WHERE run = ? AND extends IS NULL AND id <= ? ORDER BY id"
    rows = cassette.rows(sql, (file.storable_text(name), newest_session(cassette) if until is None else until))
    sessions = [number for number, _ in rows if has_an_exchange(cassette, number)]
    return RecordedRun(name, str(rows[0][1]), sessions, cassette.label) if rows else None


def client_send_times(cassette: Cassette, session: int) -> dict[int, int]:
    """When the client's frames of a session were sent: microseconds since its start, by number."""
    sql = f"SELECT seq, elapsed FROM frames WHERE {OF_SESSION} AND sender = 'client'"
    return dict(cassette.rows(sql, schema.row_ids(session)))


# -- eras


def is_legacy(cassette: Cassette, session: int) -> bool:
    """Return whether a session began with the legacy era's handshake."""
    return _asks(cassette, session, protocol.INITIALIZE)


def is_modern(cassette: Cassette, session: int) -> bool:
    """Return whether a session is modern: no handshake, but a version in its requests. Some sessions are neither."""
    ((version,),) = cassette.rows("SELECT protocol_version FROM sessions WHERE id = ?", (session,))
    return version is not None and protocol.is_modern({}, str(version)) and not is_legacy(cassette, session)


def has_both_eras(cassette: Cassette) -> bool:
    """Return whether the client's era decides what plays."""
    numbers = [number for (number,) in cassette.rows("SELECT id FROM sessions")]
    if len(numbers) < 2:
        return False
    legacy = any(is_legacy(cassette, number) for number in numbers)
    return legacy and any(is_modern(cassette, number) for number in numbers)


def is_legacy_client(cassette: Cassette, message: Message, until: int | None = None) -> bool | None:
    """Return whether a client that begins with this request is of the legacy era; None if it may be of either.

    Clients that support both eras ask `server/discover` first: the last answer to it decides.
    """
    if message.method == protocol.INITIALIZE:
        return True
    if message.method != protocol.DISCOVER:
        return False if protocol.is_modern(message.body) else None
    for session in finished_sessions(cassette, until):
        if is_modern(cassette, session) or _asks(cassette, session, protocol.DISCOVER):
            return is_legacy(cassette, session)
    return None


def _asks(cassette: Cassette, session: int, method: str) -> bool:
    sql = f"SELECT 1 FROM derived WHERE {of_method(method)} AND {_BY_CLIENT} AND {OF_SESSION} LIMIT 1"
    return bool(cassette.rows(sql, (method, *schema.row_ids(session))))


def is_login_attempt(cassette: Cassette, session: int) -> bool:
    """Return whether all requests of a session were refused, and some with 401: they were repeated in another one."""
    sql = f"""SELECT 1 FROM facts WHERE {OF_SESSION} AND kind = 'control' AND sender = 'server'
        AND text LIKE '%"status":401%' LIMIT 1"""
    return not has_an_exchange(cassette, session) and bool(cassette.rows(sql, schema.row_ids(session)))


def has_an_exchange(cassette: Cassette, session: int) -> bool:
    """Return whether a session has more than a refusal or a probe: clients start the command just to detect its era."""
    marks = ", ".join("?" * len(protocol.PROBES))
    sql = f"""SELECT 1 FROM messages m {answer_of("m")}
        WHERE m.{OF_SESSION} AND m.kind = 'request' AND m.sender = 'client' AND m.method NOT IN ({marks})
        AND m.status IS NULL AND a.status IS NOT 'refused' LIMIT 1"""
    return bool(cassette.rows(sql, (*schema.row_ids(session), *protocol.PROBES)))
