"""Client software, by declared name or by protocol fingerprint.

Since Kafka 2.4 a client may send name and version in ApiVersions (KIP-511). Others are identified
by their API versions: a library sends the newest version that it and the broker support, so its
highest versions, and its fallbacks, are characteristic. `FINGERPRINTS` was derived from captures
of these libraries; the confidence is an estimate of the pattern's specificity, not a measurement.
"""

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final, NamedTuple

from kdissect.analysis.brokers import PEER, by_name
from kdissect.analysis.question import Tables

if TYPE_CHECKING:
    import ibis.expr.types as ir

SAID: Final = "says so"
JAVA: Final = "apache-kafka-java"
BROKER: Final = "Kafka broker"
NAMING: Final = (3, 4, 5)  # versions of ApiVersions with the name: no guess needed


class Fingerprint(NamedTuple):
    """A client matches when it `sent` all these and `never` one of those: ``API version``.

    A `client_id`, where given, is a regular expression of the library's default and must match too.
    """

    software: str
    version: str | None
    confidence: int
    evidence: str
    sent: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    client_id: str = ""


# The first match counts.
FINGERPRINTS: Final = (
    Fingerprint("Kafka tools", None, 90, "client id of the Scala tools",
                client_id="^(console-producer|console-consumer-[0-9]+|GetOffsetShell"
                          "|SimpleConsumerShell)$"),
    Fingerprint("kafka-python", None, 90, "default client id",
                client_id="^kafka-python-([0-9.]+|producer-[0-9]+)$"),
    Fingerprint("aiokafka", None, 90, "default client id",
                client_id="^aiokafka-([0-9.]+|producer-[0-9]+)$"),
    Fingerprint("librdkafka", None, 90, "default client id", client_id="^rdkafka$"),
    Fingerprint("sarama", None, 90, "default client id", client_id="^sarama$"),
    Fingerprint("kgo", None, 90, "default client id", client_id="^kgo$"),
    Fingerprint("kafkajs", None, 90, "default client id", client_id="^kafkajs$"),
    Fingerprint("kafkajs", None, 95, "falls back from ApiVersions 2 to 1",
                ("ApiVersions 2", "ApiVersions 1")),
    Fingerprint("kafkajs", None, 85, "Metadata 6 beside Produce 7",
                ("ApiVersions 2", "Metadata 6", "Produce 7")),
    Fingerprint("kafkajs", None, 85, "Metadata 6 beside Fetch 11",
                ("ApiVersions 2", "Metadata 6", "Fetch 11")),
    Fingerprint(JAVA, "1.1", 90, "ApiVersions 1 first, Fetch 7",
                ("ApiVersions 1", "Metadata 5", "Fetch 7"), ("ApiVersions 0", "ApiVersions 2")),
    Fingerprint(JAVA, "1.0 or 1.1", 90, "ApiVersions 1 first, Metadata 5",
                ("ApiVersions 1", "Metadata 5"), ("ApiVersions 0", "ApiVersions 2")),
    Fingerprint(JAVA, "0.11 to 1.1", 90, "ApiVersions 1 first, Metadata 4",
                ("ApiVersions 1", "Metadata 4"), ("ApiVersions 0", "ApiVersions 2")),
    Fingerprint(JAVA, "2.1 to 2.3", 70, "ApiVersions 2 first, Metadata 7 or 8",
                ("ApiVersions 2", "Metadata 7"), ("ApiVersions 1",)),
    Fingerprint(JAVA, "2.3", 70, "ApiVersions 2 first, Metadata 8",
                ("ApiVersions 2", "Metadata 8"), ("ApiVersions 1",)),
    Fingerprint("kafka-python", "1.4 to 2.0", 85, "ListGroups to learn the broker's release",
                ("ApiVersions 0", "ListGroups 0", "Metadata 0"), ("Metadata 2",)),
    Fingerprint("kafka-python", "1.4 to 2.0", 85, "ApiVersions 0, Metadata 0 and 1",
                ("ApiVersions 0", "Metadata 0", "Metadata 1"), ("Metadata 2",)),
    Fingerprint("aiokafka", None, 80, "ApiVersions 0 first, Metadata 5",
                ("ApiVersions 0", "Metadata 5"), ("Metadata 0", "SaslAuthenticate 2")),
    Fingerprint(JAVA, "0.10.1 to 0.10.2", 65, "ApiVersions 0 first, Metadata 2",
                ("ApiVersions 0", "Metadata 2"), ("Metadata 0", "Metadata 1", "ApiVersions 2")),
    Fingerprint(JAVA, "2.5 or newer", 75, "ApiVersions 0 before a login by SaslAuthenticate 2",
                ("ApiVersions 0", "SaslHandshake 1", "SaslAuthenticate 2"),
                ("ApiVersions 1", "ApiVersions 2")),
)  # fmt: skip
# Requests that only brokers and controllers send, beside their own client ids.
PEER_APIS: Final = (
    "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "WriteTxnMarkers",
    "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "AlterPartition", "Envelope", "FetchSnapshot",
    "BrokerRegistration", "BrokerHeartbeat", "AllocateProducerIds", "ControllerRegistration",
    "AssignReplicasToDirs", "UpdateRaftVoter", "InitializeShareGroupState", "ReadShareGroupState",
    "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary",
)  # fmt: skip


def with_software(tables: Tables, exchanges: "ir.Table") -> "ir.Table":
    """Exchanges with `software`, `software_version`, `confidence`, `evidence` and `is_broker`."""
    import ibis

    connections = tables["connections"]
    ends = connections.select("connection_id", address=connections.client_ip)
    rows = exchanges.left_join(ends, "connection_id").drop("connection_id_right")
    rows = rows.mutate(who=who(rows.client_id, rows.address)).drop("address")
    joined = rows.left_join(software_of_clients(tables), "who").drop("who", "who_right")
    return joined.mutate(is_broker=ibis._.is_broker.coalesce(False))


def software_of_clients(tables: Tables) -> "ir.Table":
    """For each client by `who`: `software`, its version, `confidence`, `evidence`, `is_broker`.

    A client is a client id at an address; its fingerprint is taken from all its exchanges.
    """
    calls = client_calls(tables)
    speakers = calls.group_by("who").aggregate(
        client_key=calls.client_key.max(),
        spoken="|" + calls.call.collect(distinct=True).sort().join("|") + "|",
        is_broker=(calls.api.isin(PEER_APIS) | calls.is_peer).any(),
        client_software_name=calls.client_software_name.max(),
        client_software_version=calls.client_software_version.max(),
    )
    speakers = speakers.mutate(fingerprint=fingerprint_number(speakers))
    return speakers.select("who", "is_broker", **identity(speakers))


def client_calls(tables: Tables) -> "ir.Table":
    """API calls of each client: a row for each API and version, and for each as a replica."""
    exchanges, connections = tables["all_exchanges"], tables["connections"]
    sent = exchanges.select(
        "connection_id", "api", "api_version", "client_id",
        is_replica=exchanges.replica_id.notnull(),
    )  # fmt: skip
    ends = connections.select(
        "connection_id", "client_ip", "client_software_name", "client_software_version"
    )
    joined = sent.left_join(ends, "connection_id").drop("connection_id_right")
    # Few rows are left before expressions of texts are evaluated.
    calls = joined.group_by(["client_id", "client_ip", "api", "api_version", "is_replica"])
    rows = calls.aggregate(
        client_software_name=joined.client_software_name.max(),
        client_software_version=joined.client_software_version.max(),
    )
    return rows.mutate(
        client_key=rows.client_id.coalesce(""),
        call=rows.api + " " + rows.api_version.cast("string"),
        is_peer=rows.is_replica | by_name(rows, PEER),
        who=who(rows.client_id, rows.client_ip),
    )


def who(client: "ir.StringColumn", client_ip: "ir.StringColumn") -> "ir.StringColumn":
    """A client by its id and address."""
    return client.coalesce("") + "@" + client_ip.coalesce("")


def identity(speakers: "ir.Table") -> "dict[str, ir.Value]":
    """The columns that identify a client."""
    import ibis

    said = speakers.client_software_name

    def chosen(own: "ir.Value", of_broker: object, column: str) -> "ir.Value":
        values = [getattr(one, column) for one in FINGERPRINTS]
        guesses = [(speakers.fingerprint == index, value) for index, value in enumerate(values)]
        return ibis.cases((said.notnull(), own), (speakers.is_broker, of_broker), *guesses)

    return {
        "software": chosen(said, BROKER, "software"),
        "software_version": chosen(speakers.client_software_version, None, "version"),
        "confidence": chosen(ibis.literal(100), 95, "confidence"),
        "evidence": chosen(ibis.literal(SAID), "speaks as brokers do", "evidence"),
    }


def fingerprint_number(speakers: "ir.Table") -> "ir.IntegerValue":
    """The index in `FINGERPRINTS` of the first match; null for clients that send a name."""
    import ibis

    says = [(speakers.spoken.contains(f"|ApiVersions {version}|"), None) for version in NAMING]
    fits = [(matches(speakers, one), number) for number, one in enumerate(FINGERPRINTS)]
    found: ir.IntegerValue = ibis.cases(*says, *fits, else_=None)
    return found


def matches(speakers: "ir.Table", one: Fingerprint) -> "ir.BooleanValue":
    """Return whether a client matches a fingerprint."""
    sent = [speakers.spoken.contains(f"|{call}|") for call in one.sent]
    never = [~speakers.spoken.contains(f"|{call}|") for call in one.never]
    named = [speakers.client_key.re_search(one.client_id)] if one.client_id else []
    found: ir.BooleanValue = reduce(and_, [*sent, *never, *named])
    return found
