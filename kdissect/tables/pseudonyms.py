"""Pseudonyms for addresses and names in rows, so that a page or a table can be sent to others.

They replace the texts of rows before anything is counted, so findings, plots and tables are made of
pseudonyms only. A pseudonym is a keyed hash (HMAC-SHA-256) of the text: without the key, guessed
names cannot be tested.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from kdissect.errors import InvalidArgument

ANYWHERE: Final = ""
# Table, or `ANYWHERE`, and column → what a pseudonym begins with.
NAMES: Final = {
    (ANYWHERE, "capture"): "capture", (ANYWHERE, "client_ip"): "ip",
    (ANYWHERE, "broker_ip"): "ip", (ANYWHERE, "proxied_client_ip"): "ip",
    (ANYWHERE, "tls_sni"): "host", (ANYWHERE, "sasl_user"): "user",
    (ANYWHERE, "client_id"): "client", (ANYWHERE, "group_id"): "group",
    (ANYWHERE, "transactional_id"): "transaction", (ANYWHERE, "rack_id"): "rack",
    (ANYWHERE, "topic"): "topic", (ANYWHERE, "topic_id"): "topic-id",
    (ANYWHERE, "resource"): "resource", (ANYWHERE, "member_id"): "member",
    (ANYWHERE, "group_instance_id"): "instance", (ANYWHERE, "subscription"): "subscription",
    (ANYWHERE, "assignment"): "assignment", ("members", "protocol"): "assignor",
    (ANYWHERE, "client_software_name"): "software",
    (ANYWHERE, "client_software_version"): "version",
    (ANYWHERE, "tls_alpn"): "alpn", (ANYWHERE, "sasl_mechanism"): "mechanism",
}  # fmt: skip
# Free texts, which may contain any name.
WITHHELD: Final = frozenset({"message", "reason"})
# Texts of kdissect and of Kafka's protocol, and of tables that no page reads.
WORDS: Final = frozenset({
    "api", "broker_side_by", "candidates", "closed_by", "codec", "decode_status", "ended_by",
    "error", "event", "fetch_class", "kind", "name", "outcome", "path", "protocol", "request",
    "response", "rst_by", "sasl_outcome", "stage", "timestamp_type", "tls_cipher",
    "tls_undecrypted", "tls_version",
})  # fmt: skip
# Names that Kafka and its clients give, and that say what they are.
PUBLIC: Final = frozenset({
    "", "__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state",
    "apache-kafka-java", "librdkafka", "confluent-kafka-python", "kafka-python", "sarama",
    "franz-go", "PLAIN", "GSSAPI", "OAUTHBEARER", "SCRAM-SHA-256", "SCRAM-SHA-512", "range",
    "roundrobin", "sticky", "cooperative-sticky",
})  # fmt: skip
RELEASE: Final = re.compile(r"\d+(\.\d+){1,3}")
# Client ids of brokers and controllers, which have numbers only.
BROKERS: Final = re.compile(
    r"(broker-\d+-fetcher|ReplicaFetcherThread-\d+)-\d+|(raft|AddPartitionsManager)-client-\d+|"
    r"broker-\d+-txn-marker-sender"
)
DIGITS: Final = 10  # 40 bits: of 100 000 names, two are alike once in 200 pages
KNOWN_LIMIT: Final = 100_000
NOT_SHOWN: Final = "(withheld)"
KEY_BYTES: Final = 16
# Whole messages as JSON: any of their fields may contain a name.
DOCUMENTS: Final = "bodies"


class Pseudonyms:
    """Replaces the names in batches of rows; the same name by the same pseudonym for one key."""

    def __init__(self, key: bytes | None = None) -> None:
        """A random key without `key`; raises InvalidArgument for one below 16 bytes."""
        if key is not None and len(key) < KEY_BYTES:
            raise InvalidArgument(
                f"a key of {len(key)} bytes can be guessed: use {KEY_BYTES} or more"
            )
        self._key = key or secrets.token_bytes(32)
        self._known: dict[tuple[str, str], str] = {}

    @property
    def fingerprint(self) -> str:
        """Whether two have the same key, without telling it."""
        return hmac.digest(self._key, b"fingerprint", hashlib.sha256).hex()

    def batches(
        self, rows: Iterable[tuple[str, pa.RecordBatch]]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The batches of tables with pseudonyms."""
        for table, batch in rows:
            yield table, self.batch(table, batch)

    def batch(self, table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with pseudonyms in all columns that are not `WORDS`."""
        columns = [
            self._column(table, field.name, column)
            if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type)
            else column
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def name(self, kind: str, text: str) -> str:
        """The pseudonym of a text."""
        if text in PUBLIC or (kind == "client" and BROKERS.fullmatch(text)):
            return text
        if kind == "version" and RELEASE.fullmatch(text):
            return text
        found = self._known.get((kind, text))
        if found is None:
            digest = hmac.digest(self._key, f"{kind}\0{text}".encode(), hashlib.sha256)
            found = f"{kind}-{digest.hex()[:DIGITS]}"
            if len(self._known) < KNOWN_LIMIT:
                self._known[kind, text] = found
        return found

    def _column(self, table: str, column: str, values: pa.Array) -> pa.Array:
        kind = NAMES.get((table, column)) or NAMES.get((ANYWHERE, column))
        if kind is None and column in WORDS:
            return values
        if isinstance(values, pa.DictionaryArray):
            words = [self._shown(kind, word) for word in values.dictionary.to_pylist()]
            dictionary = pa.array(words, values.dictionary.type)
            return pa.DictionaryArray.from_arrays(values.indices, dictionary)
        return pa.array([self._shown(kind, word) for word in values.to_pylist()], values.type)

    def _shown(self, kind: str | None, text: str | None) -> str | None:
        if text is None:
            return None
        return self.name(kind, text) if kind else NOT_SHOWN


def pseudonyms_for(
    anonymize: bool | bytes, tables: Iterable[str], has_payload: bool
) -> Pseudonyms | None:
    """What `anonymize` asks for: none, those of a random key, or of this key.

    Raises InvalidArgument for rows with contents of messages, in which names cannot be replaced.
    """
    if anonymize is False:
        return None
    if DOCUMENTS in tables:
        raise InvalidArgument(f"{DOCUMENTS} have names within JSON: they cannot be anonymized")
    if has_payload:
        raise InvalidArgument("keys, values and headers of records cannot be anonymized")
    return Pseudonyms(anonymize if isinstance(anonymize, bytes) else None)
