"""URLs of cassettes: their names, their stores, and errors without secrets."""

from __future__ import annotations

import builtins
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_tape.errors import CassetteError
from mcp_tape.fleet import cache, stores
from tests.support.bucket import Answer, Bucket, Request, deny, fail, flood, served
from tests.support.forked import SCRIPT
from tests.support.golden import path_of
from tests.support.running import MCP_TAPE, run

SIGNED = "https://files.example.com/tapes/a.db?X-Amz-Credential=AKIAVISIBLE&X-Amz-Signature=f00dcafe"


def test_urls_and_paths_are_distinguished() -> None:
    assert all(map(stores.is_url, ("s3://a/b", "gs://a/b", "az://a/b", "https://a/b", "http://127.0.0.1/b")))
    assert not any(map(stores.is_url, ("a.db", "/s3/a.db", "s3:/a.db", "git:v1:a.db", "file:///a.db", "S3/a", "")))


def test_a_signed_url_is_shown_without_its_signature() -> None:
    name = stores.safe_name(SIGNED)
    assert name.startswith("https://files.example.com/tapes/a.db?...")
    assert "AKIA" not in name and "f00dcafe" not in name
    assert stores.safe_name(name) == name


def test_two_signatures_of_one_object_are_one_object_and_other_questions_are_others() -> None:
    again = SIGNED.replace("f00dcafe", "0ther")
    assert stores.key(SIGNED) == stores.key(again) == stores.key(stores.safe_name(SIGNED))
    assert stores.key(SIGNED) != stores.key(SIGNED + "&id=2")
    assert stores.safe_name(SIGNED) != stores.safe_name(SIGNED + "&id=2")


def test_a_key_in_a_bucket_may_have_any_characters(bucket: Bucket) -> None:
    key = "team/ä b/100%?x#y+z.db"
    bucket.objects[key] = b"some bytes"
    with open(cache.local(f"s3://{key}"), "rb") as copy:
        assert copy.read() == b"some bytes"
    assert [found.url for found in stores.list_objects("s3://team/ä b")] == [f"s3://{key}"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.com/a.db", "use https://"),
        ("https://someone:hunter2@example.com/a.db", "give it without"),
        ("s3://", "needs a bucket"),
        ("https:///a.db", "needs a bucket or a host"),
        ("https://[::1/a.db?sig=hunter2", "not a URL"),
        ("https://someone:hunter2@[::1/a.db", "not a URL"),
    ],
)
def test_a_url_that_cannot_be_asked_is_refused_without_quoting_its_secrets(url: str, said: str) -> None:
    with pytest.raises(CassetteError, match=said) as caught:
        stores.safe_name(url)
    assert "hunter2" not in str(caught.value)


def test_only_buckets_are_listed() -> None:
    with pytest.raises(CassetteError, match="cannot be listed"):
        list(stores.list_objects(SIGNED))


def test_a_prefix_is_one_of_whole_names(bucket: Bucket) -> None:
    bucket.objects |= {"team/tapes/a.db": b"1", "team/tapes/b/c.db": b"22", "team/tapes2/a.db": b"333"}
    found = {one.url: one.size for one in stores.list_objects("s3://team/tapes")}
    assert found == {"s3://team/tapes/a.db": 1, "s3://team/tapes/b/c.db": 2}


@pytest.mark.slow
def test_https_is_read_if_its_certificate_is_trusted(bucket: Bucket, tmp_path: Path) -> None:
    import trustme  # slow to load

    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with served(context) as site:
        site.objects["tapes/demo.db"] = path_of("demo").read_bytes()
        url = site.url.replace("127.0.0.1", "localhost") + "/tapes/demo.db?X-Amz-Signature=f00dcafe"
        refused = run([*MCP_TAPE, "ls", url])
        assert refused.returncode == 3 and b"certificate is not trusted" in refused.stderr
        trusting = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        done = run([*MCP_TAPE, "ls", url], env=os.environ | trusting)
        assert done.returncode == 0 and b"demo-weather" in done.stdout
        assert b"f00dcafe" not in refused.stderr + done.stdout + done.stderr


# Errors --------------------------------------------------------------------------------------------------


def refused(url: str) -> str:
    with pytest.raises(CassetteError) as caught:
        cache.local(url)
    cause: BaseException | None = caught.value
    while cause is not None:  # a traceback would print these too
        assert not any(secret in str(cause) for secret in ("AKIA", "hidden/secret", "f00dcafe", "hunter2"))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return str(caught.value)


def test_an_object_that_is_not_there(bucket: Bucket) -> None:
    assert "there is nothing at s3://team/a.db" in refused("s3://team/a.db")


def test_a_bucket_that_denies(bucket: Bucket) -> None:
    bucket.faults.append(deny)
    assert "was denied" in refused("s3://team/a.db")
    assert bucket.verbs() == ["GET"]  # asking again would not help


def test_a_signed_url_that_has_expired(bucket: Bucket) -> None:
    bucket.faults.append(deny)
    said = refused(f"{bucket.url}/a.db?X-Amz-Credential=AKIAVISIBLE&X-Amz-Signature=f00dcafe")
    assert "was denied" in said and "/a.db?..." in said


@pytest.mark.slow
def test_a_bucket_that_fails_is_asked_again_but_not_for_ever(bucket: Bucket) -> None:
    bucket.faults.append(fail)
    assert "status 500" in refused("s3://team/a.db")
    assert bucket.verbs() == ["GET"] * 5


def test_a_bucket_in_another_region(bucket: Bucket) -> None:
    def redirect(request: Request, answer: Answer) -> None:
        answer.status, answer.body, answer.headers = 301, b"", {}

    bucket.faults.append(redirect)
    assert "set AWS_REGION" in refused("s3://team/a.db")


def test_a_server_that_does_not_say_how_much_it_sends(bucket: Bucket) -> None:
    def unmeasured(request: Request, answer: Answer) -> None:
        answer.is_measured = False

    bucket.objects["team/a.db"] = b"some bytes"
    bucket.faults.append(unmeasured)
    assert "does not send the size" in refused(f"{bucket.url}/team/a.db")


@pytest.mark.slow
def test_an_address_without_a_server_is_reported() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        said = refused(f"http://127.0.0.1:{unused.getsockname()[1]}/a.db?sig=f00dcafe")
    assert "no connection to its host" in said


def test_plain_http_to_another_machine_is_refused_unless_its_owner_says_so(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://storage.invalid")
    assert "AWS_ALLOW_HTTP" in refused("s3://team/a.db")


@pytest.mark.parametrize(
    ("scheme", "named"), [("s3", "AWS_ACCESS_KEY_ID"), ("gs", "GOOGLE_APPLICATION"), ("az", "AZURE_STORAGE_ACCOUNT")]
)
def test_without_credentials_the_error_names_the_provider_s_own_variables(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, scheme: str, named: str
) -> None:
    """A credential service that refuses, and one that is missing: no test waits for it."""
    for name in bucket.environ():
        monkeypatch.delenv(name)
    bucket.faults.append(deny)
    address = bucket.url.removeprefix("http://")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", bucket.url)
    monkeypatch.setenv("GCE_METADATA_HOST", address)
    monkeypatch.setenv("GCE_METADATA_ROOT", address)
    monkeypatch.setenv("HOME", "/nonexistent")
    said = refused(f"{scheme}://team/a.db")
    assert "no credentials" in said and named in said
    assert len(bucket.requests) == (0 if scheme == "az" else 1)


def test_stores_are_made_of_urls(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    kinds = {url: stores.open_store(url) for url in ("s3://team/a/b.db", "gs://team/a/b.db", "az://team/a/b.db")}
    assert [type(store).__name__ for store, _ in kinds.values()] == ["S3Store", "GCSStore", "AzureStore"]
    assert [path for _, path in kinds.values()] == ["a/b.db"] * 3


@pytest.mark.slow
def test_credentials_of_a_profile_are_used_where_boto3_is(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[team]\naws_access_key_id = AKIATEAM\naws_secret_access_key = hunter2\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "team")
    bucket.objects["team/a.db"] = b"some bytes"
    cache.local("s3://team/a.db")
    assert "AKIATEAM" in bucket.requests[0].headers["authorization"]


def test_without_obstore_the_error_names_the_extra(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    usual: Callable[..., Any] = builtins.__import__

    def imported(name: str, *more: Any) -> Any:
        if name.partition(".")[0] == "obstore":
            raise ModuleNotFoundError(name)
        return usual(name, *more)

    monkeypatch.setattr(builtins, "__import__", imported)
    assert "pip install 'mcp-tape[remote]'" in refused("s3://team/a.db")


FLOODED = [
    ("ls s3://team/", 200, 3), ("pull s3://team/tapes here", 200, 3), ("ls s3://team/a.db", 403, 3),
    ("pull s3://team/a.db here", 403, 4), ("push DEMO s3://team/tapes", 403, 4), ("lake DEMO s3://team/lake", 403, 1),
]  # fmt: skip


@pytest.mark.parametrize(("words", "status", "code"), FLOODED)
@pytest.mark.slow
def test_an_answer_larger_than_memory_is_refused(
    bucket: Bucket, tmp_path: Path, words: str, status: int, code: int
) -> None:
    bucket.objects["team/a.db"] = path_of("demo").read_bytes()
    bucket.faults.append(flood(status))
    limited = ["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh", *SCRIPT]
    done = run([*limited, *words.replace("DEMO", str(path_of("demo"))).split()], cwd=tmp_path)
    assert b"more than 268.4M, and not an object" in done.stdout + done.stderr
    assert done.returncode == code and list(tmp_path.glob("here/*")) == []


@pytest.mark.slow
def test_a_listing_that_never_ends_is_refused(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """It repeats its first page for ever, or goes on without any object."""
    page = "<Contents><Key>{}</Key><LastModified>2026-11-01T12:30:00.000Z</LastModified><Size>1</Size></Contents>"
    pages = "".join(map(page.format, range(1000)))

    def again(request: Request, answer: Answer) -> None:
        more = "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>"
        answer.body = f"<ListBucketResult>{more}{pages}</ListBucketResult>".encode()

    bucket.faults.append(again)
    monkeypatch.setattr(stores, "_MOST_OBJECTS", 5000)
    with pytest.raises(stores.StoreError, match="lists more than 5,000 objects; give a longer prefix"):
        stores.list_objects("s3://team/")
    pages = ""
    monkeypatch.setattr(stores, "LONGEST", 0.5)
    with pytest.raises(stores.UnreachableError, match="no answer in time"):
        stores.list_objects("s3://team/")
