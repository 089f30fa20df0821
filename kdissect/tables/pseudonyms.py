"""Pseudonyms for addresses and names in rows, so that a page or a table can be sent to others.

They replace the texts of rows before anything is counted, so findings, plots and tables are made of
pseudonyms only. A pseudonym depends on a key: without it, guessed names cannot be tested. One name
has one pseudonym in whichever column it is, and in the packets of a slice (see
`kdissect.text.pseudonyms`, which says how they are made).
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from kdissect.errors import InvalidArgument
from kdissect.messages.extracted import ACL_RESOURCES, CONFIG_RESOURCES
from kdissect.text.pseudonyms import Cipher

ANYWHERE: Final = ""
# Table, or `ANYWHERE`, and column → what is in it.
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
    "roundrobin", "sticky", "cooperative-sticky", "uniform", "stream", "default", "compatible",
    "sessioned", "consumer", "connect", "sr", "share", "streams", "classic", "*", "User:*",
    "User:ANONYMOUS", "user", "client-id", "ip", "<default>", "kafka-cluster",
    "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL",
    "CONTROLLER", "BROKER", "INTERNAL", "EXTERNAL", "metadata.version", "kraft.version",
    "transaction.version", "group.version", "share.version", "streams.version",
    "eligible.leader.replicas.version", "Stable", "Empty", "Dead", "PreparingRebalance",
    "CompletingRebalance", "Assigning", "Reconciling", "NotReady", "Ongoing", "PrepareCommit",
    "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence",
})  # fmt: skip
RELEASE: Final = re.compile(r"\d+(\.\d+){1,3}")
# What members subscribe to and are assigned: names, patterns between slashes, `topic:0,1`, words.
MEMBERSHIPS: Final = frozenset({"subscription", "assignment"})
PARTITIONS: Final = re.compile(r"(.+):([\d,]*)")
# What errors are about, as `messages.extracted` writes it.
RESOURCE: Final = re.compile(
    "("
    + "|".join(sorted({*ACL_RESOURCES.values(), *CONFIG_RESOURCES.values()}, key=len, reverse=True))
    + r"|client-id|ip|resource type -?\d+) (.*)",
    re.DOTALL,
)
RECORD: Final = re.compile(r"record -?\d+")
TOPIC_ID: Final = re.compile(r"[\w-]{21}[AQgw]", re.ASCII)
WORKER: Final = re.compile(r"(.+)( config offset -?\d+)", re.DOTALL)
OTHER_CONTENTS: Final = re.compile(r"[{\[\"]|\d+ bytes, not decoded: ")
PATTERN: Final = re.compile(r"/(.+)/")
MEMBERSHIP_WORDS: Final = frozenset({"revoked", "active", "standby", "warmup"})
# Client ids of brokers and controllers, which have numbers only.
BROKERS: Final = re.compile(
    r"(broker-\d+-fetcher|ReplicaFetcherThread-\d+)-\d+|(raft|AddPartitionsManager)-client-\d+|"
    r"broker-\d+-txn-marker-sender"
)
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
        self.cipher = Cipher(self._key)
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
        """The pseudonym of a text, of the same size in UTF-8 unless it is an address."""
        if is_public(kind, text):
            return text
        found = self._known.get((kind, text))
        if found is None:
            found = self._pseudonym(kind, text)
            if len(self._known) < KNOWN_LIMIT:
                self._known[kind, text] = found
        return found

    def wire(self, kind: str, data: bytes) -> bytes:
        """The pseudonym of a text in a message, of the same size; also of one that is no UTF-8."""
        text = data.decode("utf-8", "backslashreplace")
        return data if is_public(kind, text) else self._text(text, len(data)).encode()

    def _pseudonym(self, kind: str, text: str) -> str:
        if kind == "ip":
            return self.cipher.address_text(text)
        if kind == "topic-id":
            return self.cipher.uuid_text(text)
        if kind in MEMBERSHIPS:
            return self._membership(text)
        if kind == "resource":
            return ", ".join(self._resource(part) for part in text.split(", "))
        return self._text(text)

    def _resource(self, text: str) -> str:
        """What an error is about: a name behind what it names, if that is told."""
        named = RESOURCE.fullmatch(text)
        if RECORD.fullmatch(text):
            return text
        return f"{named[1]} {self.name('', named[2])}" if named else self.name("", text)

    def _text(self, text: str, size: int | None = None) -> str:
        """A pseudonym that is no public name; still one of each name, as these stay as they are."""
        found = self.cipher.text(text, size)
        while found in PUBLIC:
            found = self.cipher.text(found, size)
        return found

    def _membership(self, text: str) -> str:
        """A subscription or an assignment; other contents than names are withheld."""
        worker = WORKER.fullmatch(text)
        if worker:
            return f"{self.name('', worker[1])}{worker[2]}"
        if OTHER_CONTENTS.match(text):
            return NOT_SHOWN
        return " ".join(self._of_member(word) for word in text.split(" "))

    def _of_member(self, word: str) -> str:
        """A word of a subscription or an assignment."""
        if word in MEMBERSHIP_WORDS:
            return word
        pattern, partitions = PATTERN.fullmatch(word), PARTITIONS.fullmatch(word)
        if pattern:
            return f"/{self.name('', pattern[1])}/"
        if partitions:
            return f"{self._topic(partitions[1])}:{partitions[2]}"
        return self.name("", word)

    def _topic(self, text: str) -> str:
        return self.name("topic-id" if TOPIC_ID.fullmatch(text) else "", text)

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


def is_public(kind: str, text: str) -> bool:
    """Whether a text is kept, as Kafka or a client library gave it."""
    if text in PUBLIC or (kind == "client" and BROKERS.fullmatch(text)):
        return True
    return kind == "version" and RELEASE.fullmatch(text) is not None


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
