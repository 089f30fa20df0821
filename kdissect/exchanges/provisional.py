"""Row of a connection as if it ended now; its state is not changed."""

from typing import Final

from kdissect.exchanges.broker_side import decide_sides
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.pairing import Exchanges, protocol_without_kafka
from kdissect.exchanges.sasl import Login
from kdissect.streams.events import Connection
from kdissect.tls.session_properties import SessionProperties

KAFKA_PROTOCOL: Final = "kafka"


def until_now(
    exchanges: Exchanges, connection: Connection, facts: SessionProperties | None
) -> ConnectionState:
    """State of an open connection for its row; `facts` are of its TLS."""
    known = exchanges.states.get(int(connection.id))
    told = exchanges.make_state(connection)
    if known is not None:
        copy_told(known, told)
    if facts is not None:
        note_tls(exchanges, told, facts)
    if told.protocol in ("", "other"):
        seen = "proxy" if told.has_proxy_header else told.protocol
        told.protocol = protocol_without_kafka(connection, seen)
    told.login.end(False, not told.misses_answers, told.protocol == KAFKA_PROTOCOL)
    return told


def copy_told(known: ConnectionState, told: ConnectionState) -> None:
    """Copy the fields that the table of connections needs."""
    told.request_direction = known.request_direction
    told.broker_side_by = known.broker_side_by
    told.protocol = known.protocol
    told.exchange_count = known.exchange_count
    told.misses_answers = known.misses_answers
    told.software_name = known.software_name
    told.software_version = known.software_version
    told.has_proxy_header = known.has_proxy_header
    told.proxied_ip = known.proxied_ip
    told.proxied_port = known.proxied_port
    login = Login()
    login.mechanism = known.login.mechanism
    login.user = known.login.user
    login.outcome = known.login.outcome
    login.count = known.login.count
    login.is_open = known.login.is_open
    login.is_past = known.login.is_past
    login.is_missed = known.login.is_missed
    told.login = login


def note_tls(exchanges: Exchanges, state: ConnectionState, facts: SessionProperties) -> None:
    """Set the protocol of a connection of which only TLS was recognized."""
    if state.protocol == "" and facts.plaintext_bytes == 0:
        state.protocol = "tls"
    if state.request_direction < 0:
        decide_sides(state, exchanges.ports, exchanges.brokers)
    if state.request_direction < 0 and facts.client_direction >= 0:
        state.request_direction = facts.client_direction
        state.broker_side_by = "content"
