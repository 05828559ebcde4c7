"""Values that a recorder redacted by mistake, restored where possible: progress tokens, and parts of schemas.

Some recorders redact everything named a token: the token of a call, which identifies its progress, and `maxTokens` in a
tool's schema, which no client can then read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...wire import frames, jsontext, protocol
from ..foreign import Loss, SentBytes

_TOKENS = "progress tokens hidden, and guessed"
_AMBIGUOUS = "some progress is ambiguous, because its tokens were hidden"
_SCHEMAS = "parts of schemas hidden, and left open"
_ASKED = ("params", "_meta", "progressToken")
_TOLD = ("params", "progressToken")


class HiddenValues:
    """The values that `word` hides in one session."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._token = jsontext.quote(word)
        self._open: list[str] = []  # ids of requests whose tokens were hidden

    def restore(self, said: SentBytes) -> Iterator[SentBytes | Loss]:
        """Yield the message with what can be restored, and the losses."""
        message = next(iter(frames.parse(said.text)[1]), None)
        if message is None:
            yield said
            return
        if message.kind == "response" and message.rpc_id in self._open:
            self._open.remove(message.rpc_id)
        text = said.text.decode("utf-8", "replace")
        if self._token in text:
            for done in self._restore_parts(message, text):
                if isinstance(done, Loss):
                    yield done
                else:
                    text = done
        yield said._replace(text=text.encode("utf-8", "replace"))

    def _restore_parts(self, message: frames.Message, text: str) -> Iterator[str | Loss]:
        if message.kind == "request" and message.rpc_id and self._is_hidden(text, _ASKED):
            self._open.append(message.rpc_id)
            yield Loss(_TOKENS)
            yield _put_token(text, _ASKED, message.rpc_id)
        elif message.method == protocol.PROGRESS and self._is_hidden(text, _TOLD):
            if len(self._open) != 1:
                yield Loss(_AMBIGUOUS)
            if self._open:
                yield _put_token(text, _TOLD, self._open[-1])
        elif message.kind == "response" and any(f'"{key}"' in text for key in protocol.SCHEMA_KEYS):
            yield Loss(_SCHEMAS)
            yield jsontext.dumps(self._open_schemas(message.body))

    def _is_hidden(self, text: str, path: jsontext.Path) -> bool:
        span = jsontext.find(text, path)
        return span is not None and text[slice(*span)] == self._token

    def _open_schemas(self, value: Any, within: bool = False) -> Any:
        """A value whose schemas allow anything at the places that were hidden."""
        if isinstance(value, dict):
            return {key: self._open_schemas(one, within or key in protocol.SCHEMA_KEYS) for key, one in value.items()}
        if isinstance(value, list):
            return [self._open_schemas(one, within) for one in value]
        return {} if within and value == self._word else value


def _put_token(text: str, path: jsontext.Path, token: str) -> str:
    start, end = jsontext.find(text, path) or (0, 0)
    return text[:start] + token + text[end:]
