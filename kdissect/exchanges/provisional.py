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
    exchanges: Exchanges, connection: Connection, session: SessionProperties | None
) -> ConnectionState:
    """State of an open connection for its row; `session` are of its TLS."""
    known = exchanges.states.get(int(connection.id))
    copy = exchanges.make_state(connection)
    if known is not None:
        copy_fields(known, copy)
    if session is not None:
        note_tls(exchanges, copy, session)
    if copy.protocol in ("", "other"):
        seen = "proxy" if copy.proxy_header_size else copy.protocol
        copy.protocol = protocol_without_kafka(connection, seen)
    copy.login.end(False, not copy.misses_answers, copy.protocol == KAFKA_PROTOCOL)
    return copy


def copy_fields(known: ConnectionState, copy: ConnectionState) -> None:
    """Copy the fields that the table of connections needs."""
    copy.request_direction = known.request_direction
    copy.broker_side_by = known.broker_side_by
    copy.protocol = known.protocol
    copy.exchange_count = known.exchange_count
    copy.misses_answers = known.misses_answers
    copy.software_name = known.software_name
    copy.software_version = known.software_version
    copy.proxy_header_size = known.proxy_header_size
    copy.proxied_ip = known.proxied_ip
    copy.proxied_port = known.proxied_port
    login = Login()
    login.mechanism = known.login.mechanism
    login.user = known.login.user
    login.outcome = known.login.outcome
    login.count = known.login.count
    login.is_open = known.login.is_open
    login.is_past = known.login.is_past
    login.is_missed = known.login.is_missed
    copy.login = login


def note_tls(exchanges: Exchanges, state: ConnectionState, session: SessionProperties) -> None:
    """Set the protocol of a connection with only TLS recognized."""
    if state.protocol == "" and session.plaintext_bytes == 0:
        state.protocol = "tls"
    if state.request_direction < 0:
        decide_sides(state, exchanges.ports, exchanges.brokers)
    if state.request_direction < 0 and session.client_direction >= 0:
        state.request_direction = session.client_direction
        state.broker_side_by = "content"
