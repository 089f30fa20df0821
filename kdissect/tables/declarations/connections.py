"""Columns of `connections`; counters by direction are in `streams.direction_counts`."""

from collections.abc import Iterable, Iterator
from typing import Final

from kdissect.messages.columns import BOOL, INT32, INT64, TEXT, TIME, Column
from kdissect.streams.direction_counts import BYTE_COUNTERS, SEGMENT_COUNTERS, Counter
from kdissect.tables.declarations.table import CAPTURE, CONNECTION_ID, Table

BOTH_WAYS: Final = (
    ("to_broker", "client to broker", "c.to_broker", "c.up"),
    ("to_client", "broker to client", "c.to_client", "c.down"),
)


def both_ways(counters: Iterable[Counter]) -> Iterator[Column]:
    """Columns of both directions: `counts` and `way` in a source are those of each."""
    for name, unit, meaning, source in counters:
        value = source or f"{{counts}}.{name}"
        for suffix, way, counts, direction in BOTH_WAYS:
            yield Column(
                f"{name}_{suffix}", INT64, unit, f"{meaning}, {way}",
                source=value.format(counts=counts, way=direction),
            )  # fmt: skip


CONNECTIONS = Table(
    "connections",
    "a TCP connection",
    (
        CAPTURE._replace(source="c.connection.capture"),
        CONNECTION_ID._replace(source="c.connection.id"),
        Column(
            "client_ip", TEXT, "", "address of the client side",
            source="own.index(c.address(c.up))",
        ),
        Column("client_port", INT32, "", "TCP port of the client side", source="c.port(c.up)"),
        Column(
            "broker_ip", TEXT, "", "address of the broker side",
            source="own.index(c.address(c.down))",
        ),
        Column("broker_port", INT32, "", "TCP port of the broker side", source="c.port(c.down)"),
        Column(
            "broker_side_by", TEXT, "",
                "how the broker's side was determined: user, syn, port or content",
            source="own.index_or_null(c.state.broker_side_by)",
        ),
        Column(
            "proxied_client_ip", TEXT, "",
            "client address from the PROXY protocol header; null without one",
            source="own.index_or_null(c.proxied_address())",
        ),
        Column(
            "proxied_client_port", INT32, "", "client port from the PROXY protocol header",
            source="c.state.proxied_port",
        ),
        Column(
            "first_time", TIME, "", "time of the first packet",
            source="c.connection.first_time_ns",
        ),
        Column(
            "last_time", TIME, "", "time of the last packet",
            source="c.connection.last_time_ns",
        ),
        Column(
            "first_packet", INT64, "", "frame number of the first packet",
            source="c.connection.first_packet",
        ),
        Column(
            "syn_seen", BOOL, "", "the capture contains the start of the connection",
            source="1 if c.connection.syn_seen else 0",
        ),
        Column(
            "fin_seen", BOOL, "", "a FIN was seen, either way",
            source="1 if c.to_broker.fin_seen or c.to_client.fin_seen else 0",
        ),
        Column(
            "rst_by", TEXT, "", "side that reset the connection: client, broker; null if none",
            source="own.index_or_null(c.rst_by())",
        ),
        Column(
            "ended_by", TEXT, "",
            "side of the first FIN or RST in the capture: client, broker; null without either, "
            "or if an earlier one of the other side may be missing",
            source="own.index_or_null(c.ended_by())",
        ),
        Column(
            "closed_by", TEXT, "",
                "reason the connection was closed: fin, rst, reuse, idle, limit, capture-end",
            source="own.index_or_null(c.connection.closed_by)",
        ),
        *both_ways(BYTE_COUNTERS),
        *both_ways(
            (
                Counter(
            "framed_bytes", "bytes",
            "payload cut into frames, size fields and PROXY headers included",
            source="c.framed_bytes({way})",
        ),
                Counter(
            "skipped_bytes", "bytes", "payload that could not be cut into frames",
            source="c.skipped_bytes({way})",
        ),
                Counter(
            "tls_bytes", "bytes", "TLS overhead: handshakes, record headers, tags",
            source="0 if c.facts is None else c.facts.tls_bytes[{way}]",
        ),
                Counter(
            "encrypted_bytes", "bytes", "payload inside TLS that was not decrypted",
            source="0 if c.facts is None else c.facts.encrypted_bytes[{way}]",
        ),
            )
        ),
        *both_ways(SEGMENT_COUNTERS),
        Column(
            "handshake_rtt_ns", INT64, "ns", "SYN to the ACK of the SYN-ACK",
            source="or_null(c.connection.handshake_rtt_ns)",
        ),
        Column(
            "handshake_rtt_broker_ns", INT64, "ns",
            "part of it between the tap and the broker side",
            source="or_null(in_direction(c.connection.handshake_half_ns, c.down))",
        ),
        Column(
            "handshake_rtt_client_ns", INT64, "ns",
            "part of it between the tap and the client side",
            source="or_null(in_direction(c.connection.handshake_half_ns, c.up))",
        ),
        Column(
            "min_rtt_broker_ns", INT64, "ns", "smallest data to ACK time, tap to broker side",
            source="or_null(in_direction(c.connection.min_rtt_ns, c.down))",
        ),
        Column(
            "min_rtt_client_ns", INT64, "ns", "smallest data to ACK time, tap to client side",
            source="or_null(in_direction(c.connection.min_rtt_ns, c.up))",
        ),
        Column(
            "exchanges", INT64, "", "exchanges of the connection",
            source="c.state.exchange_count",
        ),
        Column(
            "protocol", TEXT, "",
            "kafka, kafka-0.7, tls, http, http2, ssh, zookeeper, rmi, postgresql, mysql, redis, "
            "amqp, mqtt, dns, proxy (a PROXY header alone), other, or none (no payload); "
            "excluded, kafka-proposal and kafka-trunk-2012 only when asked for (docs/ports.md)",
            source="own.index_or_null(c.state.protocol)",
        ),
        Column(
            "tls_version", TEXT, "", "SSL 3.0 to TLS 1.3, as the server chose",
            source="NULL if c.facts is None else own.index_or_null(c.facts.version)",
        ),
        Column(
            "tls_sni", TEXT, "", "TLS server name, when the client sent one",
            source="NULL if c.facts is None else own.index_or_null(c.facts.server_name)",
        ),
        Column(
            "tls_alpn", TEXT, "", "protocol the server chose by ALPN",
            source="NULL if c.facts is None else own.index_or_null(c.facts.alpn)",
        ),
        Column(
            "tls_cipher", TEXT, "", "cipher suite the server chose, by IANA's name",
            source="NULL if c.facts is None else own.index_or_null(c.facts.cipher)",
        ),
        Column(
            "tls_resumed", BOOL, "", "the session was resumed from an earlier handshake",
            source="NULL if c.facts is None else flag_or_null(c.facts.is_resumed)",
        ),
        Column(
            "tls_undecrypted", TEXT, "",
            "reason that no TLS payload was decrypted: no hellos, no ClientHello, no "
            "ServerHello, no secrets, wrong secrets, unsupported, limit, loss",
            source="NULL if c.facts is None else own.index_or_null(c.facts.undecrypted)",
        ),
        Column(
            "sasl_mechanism", TEXT, "", "SASL mechanism",
            source="own.index_or_null(c.state.login.mechanism)",
        ),
        Column(
            "sasl_user", TEXT, "", "SASL user name, if sent in clear text",
            source="own.index_or_null(c.state.login.user)",
        ),
        Column(
            "sasl_outcome", TEXT, "",
            "ok, failed, or none (no SASL in the capture); null if it cannot be determined",
            source="own.index_or_null(c.state.login.outcome)",
        ),
        Column(
            "sasl_logins", INT64, "",
            "completed authentications; the other SASL columns are of the last one",
            source="c.state.login.count",
        ),
        Column(
            "client_software_name", TEXT, "", "client library, from ApiVersions v3+",
            source="own.index_or_null(c.state.software_name)",
        ),
        Column(
            "client_software_version", TEXT, "", "its version, from ApiVersions v3+",
            source="own.index_or_null(c.state.software_version)",
        ),
    ),
)  # fmt: skip
