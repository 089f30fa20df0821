"""Takes credentials out of decoded messages; the only place that does.

schema/secrets.tsv lists every field that is one, or has some in it, and its kind:

    credential   always: SASL tokens, SCRAM salts and keys, HMACs of delegation tokens
    config       the value of a config that its name, or the broker, says is sensitive; parts of
                 such names are in schema/secret_configs.tsv
    message      another message in bytes, whose own fields count; redacted while it is bytes
    records      payload; redacted while it is bytes when it is of Kafka's metadata log

Messages that the list does not name cost nothing. Of those it names, errors have no bytes with
them, and tags that no layout knows have no content.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NamedTuple

from kdissect.errors import DecodeError, UnknownApi
from kdissect.protocol.apis import find_api
from kdissect.protocol.notation import read_index
from kdissect.protocol.specs import snake_case

LAYOUT: Final = "layout"
CREDENTIAL: Final = "credential"
CONFIG: Final = "config"
MESSAGE: Final = "message"
RECORDS: Final = "records"
KINDS: Final = (CREDENTIAL, CONFIG, MESSAGE, RECORDS)
# The metadata log by name and, always the same, by id.
SECRET_TOPICS: Final = ("__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ")
UNKNOWN_TAGS: Final = "unknown_tags"


class Secrets(NamedTuple):
    """The listed fields of a struct by name: kinds of its own, and what is in structs of it."""

    kinds: dict[str, str]
    structs: dict[str, "Secrets"]


def redacted(
    message: str, side: str, body: dict[str, Any], keeps_records: bool = False
) -> dict[str, Any]:
    """A decoded message with ``<redacted, 32 bytes>`` in place of every credential.

    `side` is request, response or layout. With `keeps_records` records stay bytes whatever topic
    they are of, for the caller to open.
    """
    secrets = listed().get((message, side))
    if secrets is None:
        return body
    safe: dict[str, Any] = _redacted(secrets, body, False, keeps_records)
    return safe


@contextmanager
def withholding(message: str | int, side: str) -> Iterator[None]:
    """Take the bytes out of a DecodeError when credentials or payload may be among them."""
    try:
        yield
    except DecodeError as error:
        if has_secrets(message, side):
            error.withhold()
        raise


def has_secrets(message: str | int, side: str) -> bool:
    """Whether credentials or payload may be in a message; in those of an unknown API they may.

    `message` is the key or name of an API, or with side layout another message's name.
    """
    if side == LAYOUT:
        return (message, side) in listed()
    try:
        return (find_api(message).name, side) in listed()
    except UnknownApi:
        return True


def is_secret_config(name: object) -> bool:
    """Whether the value of the config of this name is a credential.

    >>> is_secret_config("sasl.jaas.config"), is_secret_config("segment.ms")
    (True, False)
    """
    return isinstance(name, str) and any(part in name.lower() for part in secret_parts())


@cache
def secret_parts() -> tuple[str, ...]:
    """What the names of configs with credentials have in them, in lower case."""
    return tuple(part for part, _ in read_index("secret_configs"))


@cache
def listed() -> dict[tuple[str, str], Secrets]:
    """The fields of schema/secrets.tsv by message and side, by their names in decoded messages."""
    found: dict[tuple[str, str], Secrets] = {}
    for message, side, path, kind in read_index("secrets"):
        *structs, field = (snake_case(step) for step in path.split("."))
        at = found.setdefault((message, side), Secrets({}, {}))
        for struct in structs:
            at = at.structs.setdefault(struct, Secrets({}, {}))
        at.kinds[field] = kind
    return found


def _redacted(secrets: Secrets, value: Any, is_secret: bool, keeps_records: bool) -> Any:
    """`value`, a struct or array of them; `is_secret` says that its configs or records are."""
    if isinstance(value, list):
        return [_redacted(secrets, item, is_secret, keeps_records) for item in value]
    if not isinstance(value, dict):
        return value
    is_secret = is_secret or _is_secret(secrets, value)
    safe = dict(value)
    for name, kind in secrets.kinds.items():
        if name in safe and _is_hidden(kind, safe[name], is_secret, keeps_records):
            safe[name] = _mark(safe[name])
    for name, inner in secrets.structs.items():
        if name in safe:
            safe[name] = _redacted(inner, safe[name], is_secret, keeps_records)
    if UNKNOWN_TAGS in safe:
        safe[UNKNOWN_TAGS] = {tag: _mark(content) for tag, content in safe[UNKNOWN_TAGS].items()}
    return safe


def _is_hidden(kind: str, value: Any, is_secret: bool, keeps_records: bool) -> bool:
    if kind == MESSAGE:
        return isinstance(value, bytes)
    if kind == RECORDS:
        return is_secret and not keeps_records
    return kind == CREDENTIAL or is_secret


def _is_secret(secrets: Secrets, struct: dict[str, Any]) -> bool:
    """Whether a struct is a config entry whose value nobody should see, or the metadata log's."""
    if CONFIG in secrets.kinds.values():
        return bool(struct.get("is_sensitive")) or is_secret_config(struct.get("name"))
    names = (struct.get("topic"), struct.get("name"), struct.get("topic_id"))
    return any(name in SECRET_TOPICS for name in names)


def _mark(value: Any) -> Any:
    if isinstance(value, bytes | str):
        size = len(value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value)
        return f"<redacted, {size} bytes>"
    return value
