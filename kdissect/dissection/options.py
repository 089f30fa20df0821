"""`Options`: how to dissect. Importing this module imports no Arrow and starts no thread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kdissect.limits import Limits
from kdissect.tables.schemas import DEFAULT_TABLES

Progress = Callable[[int, int | None], None]

# Rows of one record batch: 32 768 rows of 31 packed integers are 8 MB before they become Arrow.
BATCH_ROWS: Final = 32_768

DEFAULT_LIMITS: Final = Limits()


@dataclass
class Options:
    """Dissection options; `limits` bound the memory use.

    `ports` are broker ports beside the known ones; `brokers` are ``address:port`` treated as
    brokers regardless of other evidence. `decode_as` are ``port=protocol`` and
    ``address:port=protocol``: they force a protocol (one of `messages.old_protocols.PROTOCOLS`,
    "tls") or exclude the connection ("none"). `protocol` is the protocol of brokers and clients:
    "auto" for Kafka of any release, else one of `PROTOCOLS` for every connection. `keylog` is one
    or more TLS key logs (NSS format), beside the secrets in pcapng files. `jobs` processes share
    the work of `write` and `make_run` on files of a million packets and more: 0 for as many as
    there are processors, from two million on.
    """

    ports: Sequence[int] = ()
    brokers: Sequence[str] = ()
    decode_as: Sequence[str] = ()
    keylog: str | Path | Sequence[str | Path] = ()
    tables: Sequence[str] = DEFAULT_TABLES
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    payload: bool = False
    verify_crc: bool = False
    strict: bool = False
    protocol: str = "auto"
    limits: Limits = DEFAULT_LIMITS
    batch_rows: int = BATCH_ROWS
    progress: Progress | None = None
    jobs: int = 0
