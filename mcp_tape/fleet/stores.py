"""Remote cassettes: their URLs, the stores behind them, and errors in our words.

A URL may contain a signature, and a store's error may quote it, with keys and accounts. So each URL has a name without
secrets, which is shown, and which opens it in this process. The full URL stays here, and errors report only their kind.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from importlib.util import find_spec
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from .. import __version__
from ..errors import CassetteError
from ..transports.http.addresses import is_loopback
from ..transports.workers.crew import peak
from ..values import size_text

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import AzureStore, GCSStore, S3Store

    Store = S3Store | GCSStore | AzureStore

T = TypeVar("T")

OFFLINE = "MCP_TAPE_OFFLINE"
BUCKETS = ("s3", "gs", "az")
URLS = ("s3://", "gs://", "az://", "https://", "http://")
_SHOWN = 12  # digits of a key in the name of a URL
CONNECT, PATIENCE, LONGEST = 5.0, 30.0, 3600.0  # seconds: to connect, for the next bytes, and for the whole answer
_MOST_MEMORY = 256 << 20  # bytes by which the answer to a request may let this process grow
_MOST_OBJECTS = 1_000_000  # in one listing
_TICK = 0.05  # seconds between two looks at the memory
# The parameters that differ between two signed URLs of one object, as the providers name them.
_SIGNING = re.compile(
    "(?i)x-(?:amz|goog)-.*|awsaccesskeyid|googleaccessid|signature|sig|expires|policy|key-pair-id|s[evprt]|spr|sk[a-z]+"
)
_METADATA = ("169.254.169.254", "latest/api/token", "latest/meta-data", "token request", "MissingAccount")
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
}
_REASONS = {  # why a request failed, by fragments of obstore's messages
    "BareRedirect": "its bucket seems to be in another region; set AWS_REGION",
    "dns error": "its host is not known here",
    "ertificate": "its certificate is not trusted",
    "kind: Connect": "no connection to its host",
    "kind: Timeout": "no answer in time",
    "TimedOut": "no answer in time",
    "IncompleteMessage": "the connection broke off",
    "kind: Decode": "the connection broke off",
    "kind: Body": "the connection broke off",
}
_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", "GCE_")  # prefixes of the environment variables that configure a store
_newest: list[Any] = []  # the store used last, preceded by the settings it was made from
_known: dict[str, str] = {}  # full URLs, by their names without secrets


class StoreError(CassetteError):
    """A store refused a request, or it failed."""


class UnreachableError(StoreError):
    """The store cannot be reached, does not answer, or fails."""


class GoneError(StoreError):
    """There is no object at the URL."""


class StoredObject(NamedTuple):
    """An object in a store. `problem`: why it, and perhaps its neighbours, cannot be read."""

    url: str
    size: int = 0
    modified: datetime = datetime.fromtimestamp(0, timezone.utc)
    etag: str | None = None
    problem: str | None = None


def is_url(text: str) -> bool:
    return text.startswith(URLS)


def is_offline() -> bool:
    return os.environ.get(OFFLINE, "") not in ("", "0")


def safe_name(url: str) -> str:
    """The name by which a URL is shown, and opened in this process: the URL without its secrets.

    The URL of another store (see `extensions`) is its own name.
    """
    if not is_url(url):
        return url
    parts = split(url)
    if parts.scheme in BUCKETS or not parts.query or url in _known:
        return url
    if partial_key(url):
        return url
    name = f"{parts.scheme}://{parts.netloc}{parts.path}?...{key(url)[:_SHOWN]}"
    _known[name] = parts._replace(fragment="").geturl()
    return f"{name}#{parts.fragment}" if parts.fragment else name  # selects a session or a server


def partial_key(name: str) -> str | None:
    """The start of a URL's key, if another process fetched the URL and gave only its name to this one."""
    found = re.search(rf"\?\.\.\.([0-9a-f]{{{_SHOWN}}})(?:#|$)", name)
    return found[1] if found and name.partition("#")[0] not in _known else None


def key(url: str) -> str:
    """The cache key of a URL: a hash, the same for every signature of the URL."""
    url = _known.get(url, url)
    parts = split(url)
    if parts.query and parts.scheme not in BUCKETS:
        asked = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if not _SIGNING.fullmatch(pair[0])]
        url = parts._replace(query=urlencode(asked), fragment="").geturl()
    return sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


def open_store(url: str) -> tuple[Store, str]:
    """The store of a bucket's URL, and the path in it."""
    parts = askable_parts(url)
    try:
        import obstore.store as stores
    except ImportError:
        raise CassetteError(f"{url} cannot be reached without obstore: pip install 'mcp-tape[remote]'") from None
    bucket, _, path = url.partition("://")[2].partition("/")
    common: Any = {"client_options": _client(parts), "retry_config": _retries()}
    try:
        settings = {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}
        known = f"{parts.scheme}://{bucket}", settings, common
        if _newest[:3] != [*known]:  # reused for its connections: making one takes longer than most requests
            more = {"credential_provider": _profile_credentials()} if parts.scheme == "s3" else {}
            kind = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}[parts.scheme]
            _newest[:] = [*known, kind(bucket, **common, **more)]
        return _newest[3], path
    except Exception as error:  # anything that a provider's settings may cause
        raise translate_error(error, url) from None


def askable_parts(url: str) -> SplitResult:
    """Split a URL that is about to be requested. Refuses one that cannot be."""
    parts = split(url)
    if is_offline():
        raise CassetteError(f"{safe_name(url)} is not fetched, as {OFFLINE} is set; unset it")
    return parts


async def await_bounded(name: str, request: Awaitable[T], until: float | None = None) -> T:
    """Await a request. Ends it if its answer takes too much memory, or at a time.

    obstore holds a listing and the text of an error in memory, whatever their size, and does not report how much it has
    received. So this watches the memory of the process. `name` is shown in errors.
    """
    task, most = asyncio.ensure_future(request), peak() + _MOST_MEMORY
    try:
        while not (await asyncio.wait([task], timeout=_TICK))[0]:
            if peak() > most:
                sent = f"more than {size_text(_MOST_MEMORY)}, and not an object"
                raise StoreError(f"{name} answers with {sent}; check the URL, and the endpoint that is set for it")
            if until is not None and monotonic() > until:
                raise UnreachableError(f"cannot reach {name}: no answer in time")
        return task.result()
    finally:
        task.cancel()


def wait_for(name: str, act: Callable[[], Awaitable[T]]) -> T:
    """Make a request, and wait for it in any thread: `await_bounded`, within the time for a whole object."""

    async def ask() -> T:
        return await await_bounded(name, act(), monotonic() + LONGEST)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(ask())
    with ThreadPoolExecutor(1) as beside:  # the loop of this thread runs already
        return beside.submit(asyncio.run, ask()).result()


def list_objects(url: str) -> list[StoredObject]:
    """Every object below a prefix: `s3://team/tapes` has `s3://team/tapes/a.db`, but not `s3://team/tapes2/a.db`."""
    expect_bucket(url, "listed")
    store, prefix = open_store(url)
    try:
        return wait_for(url, lambda: _list_all(store, url, prefix))
    except Exception as error:
        raise translate_error(error, safe_name(url)) from None


async def _list_all(store: Store, url: str, prefix: str) -> list[StoredObject]:
    from obstore.exceptions import InvalidPathError

    root = "/".join(url.split("/", 3)[:3])
    try:
        return [_stored_object(root, one) async for one in each_object(store, prefix, url)]
    except InvalidPathError:
        return [one async for one in _list_by_level(store, root, prefix)]


async def each_object(store: Store, prefix: str, name: str) -> AsyncIterator[ObjectMeta]:
    """Every object below a prefix. `name` is shown in errors."""
    import obstore

    number = 0
    async for page in obstore.list(store, prefix or None, chunk_size=1000):
        number += len(page)
        if number > _MOST_OBJECTS:
            raise StoreError(f"{name} lists more than {_MOST_OBJECTS:,} objects; give a longer prefix")
        for one in page:
            yield one


async def _list_by_level(store: Store, root: str, prefix: str) -> AsyncIterator[StoredObject]:
    """Every object below a prefix, level by level, for prefixes with a name that obstore cannot list.

    obstore drops the whole listing that contains such a name: the level is reported as a problem, and the other levels
    are not lost.
    """
    import obstore
    from obstore.exceptions import InvalidPathError

    try:
        level = await obstore.list_with_delimiter_async(store, prefix or None)
    except InvalidPathError as error:
        name = re.search(r'(?s)Path "(.*?)"(?: contained|: Encountered)', str(error))
        place, odd = f"{root}/{prefix}", ascii(name[1]) if name else "an odd name"
        why = (
            f"{place} cannot be listed: the name of an object there is or begins with {odd}; rename it, or name others"
        )
        yield StoredObject(place, problem=why)
        return
    for one in level["objects"]:
        yield _stored_object(root, one)
    for below in level["common_prefixes"]:
        async for deeper in _list_by_level(store, root, below):
            yield deeper


def _stored_object(root: str, one: ObjectMeta) -> StoredObject:
    return StoredObject(f"{root}/{one['path']}", one["size"], one["last_modified"], one["e_tag"])


def cassettes_below(url: str) -> Iterator[StoredObject]:
    """Every object below a prefix that is named like a cassette, sorted by name."""
    return iter(sorted(one for one in list_objects(url) if one.problem or one.url.endswith((".db", ".jsonl"))))


def expect_bucket(url: str, what: str) -> None:
    """Refuse a place that is not a bucket. `what` describes what cannot be done there."""
    if split(url).scheme not in BUCKETS:
        raise CassetteError(f"{safe_name(url)} cannot be {what}: that takes s3://, gs:// or az://")


def translate_error(error: Exception, name: str) -> CassetteError:
    """A store's error in our words: its own message may quote signed URLs, keys and accounts."""
    if isinstance(error, CassetteError):
        return error
    scheme, kind, text = name.partition(":")[0], type(error).__name__, str(error)
    if isinstance(error, FileNotFoundError):
        return gone_error(name)
    if kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return denied_error(name)
    if scheme in BUCKETS and any(sign in text for sign in _METADATA):
        return StoreError(f"no credentials for {name} were found; set {_CREDENTIALS[scheme]}")
    if "BadScheme" in text:
        hint = "use https, or set AWS_ALLOW_HTTP=true if that network is yours"
        return StoreError(f"{name} would go over plain http, to another machine; {hint}")
    return UnreachableError(f"cannot reach {name}: {_why(text)}")


def gone_error(name: str) -> GoneError:
    return GoneError(f"there is nothing at {name}, or your credentials do not show it")


def denied_error(name: str) -> StoreError:
    return StoreError(f"access to {name} was denied; check your credentials, and what they may do there")


def _why(text: str) -> str:
    status = re.search(r"status code: (\d{3})", text)
    if status:
        return f"the store answered with status {status[1]}"
    return next((words for sign, words in _REASONS.items() if sign in text), "the request failed")


def split(url: str) -> SplitResult:
    """Split a URL; refuse one that is invalid."""
    if not is_url(url):
        raise CassetteError(f"{url} is not the URL of a cassette: it must begin with {', '.join(URLS[:4])}")
    try:
        parts = urlsplit(_known.get(url, url))
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise CassetteError(f"{url.partition('?')[0].rpartition('@')[2]} is not a URL that mcp-tape can read") from None
    if not host:
        raise CassetteError(f"{parts.scheme}:// needs a bucket or a host behind it")
    if "@" in parts.netloc:
        raise CassetteError(f"the URL of {host} holds a name or a password, which others would see; give it without")
    if parts.scheme == "http" and not is_loopback(host):
        raise CassetteError(f"http://{host} is not fetched: others could read or change the answer; use https://")
    return parts


def _client(parts: SplitResult) -> dict[str, Any]:
    """Options of connections. A large object may take long, but not for ever, and not long between two reads."""
    found: dict[str, Any] = {}
    for name, seconds in (("connect_timeout", CONNECT), ("read_timeout", PATIENCE), ("timeout", LONGEST)):
        found[name] = f"{round(1000 * seconds)}ms"
    ours = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"} if parts.scheme == "s3" else ()
    endpoints = [urlsplit(os.environ[name]) for name in ours if os.environ.get(name)] or [parts]
    if any(one.scheme == "http" and is_loopback(one.hostname or "") for one in endpoints):
        found["allow_http"] = True
    return found | {"user_agent": f"mcp-tape/{__version__}"}


def _retries() -> dict[str, Any]:
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2}
    return {"max_retries": 4, "backoff": backoff, "retry_timeout": timedelta(seconds=60)}


def _profile_credentials() -> Any:
    """Credentials of AWS profiles, by boto3 if it is installed; None if the environment has them, or there are none."""
    given = ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_WEB_IDENTITY_TOKEN_FILE")
    containers = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
    files = (os.environ.get(name) or f"~/.aws/{file}" for name, file in _PROFILES.items())
    is_there = "AWS_PROFILE" in os.environ or any(os.path.exists(os.path.expanduser(file)) for file in files)
    if not is_there or any(os.environ.get(name) for name in (*given, *containers)) or not find_spec("boto3"):
        return None
    import boto3  # type: ignore[import-untyped]

    session = boto3.Session()
    found = session.get_credentials()
    return None if found is None else _Profile(found, session.region_name)


_PROFILES = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}


class _Profile:
    """Credentials of a boto3 session, in the form that obstore calls."""

    def __init__(self, credentials: Any, region: str | None) -> None:
        self._credentials = credentials
        self.config = {"region": region} if region else {}

    def __call__(self) -> dict[str, Any]:
        frozen = self._credentials.get_frozen_credentials()
        until = datetime.now(timezone.utc) + timedelta(minutes=10)
        keys = {"access_key_id": frozen.access_key, "secret_access_key": frozen.secret_key}
        return keys | {"token": frozen.token, "expires_at": until}
