"""Decides which side of a connection is the broker."""

from typing import Final

from librt.strings import read_i16_be
from mypy_extensions import i64

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.streams.events import ACCEPTER, OPENER

DEFAULT_PORTS: Final = (9092, 9093, 9094, 19092, 29092)


def decide_sides(state: ConnectionState, ports: frozenset[int], brokers: frozenset[bytes]) -> None:
    """Decide the broker's side by user options, the SYN, or a known port; else leave it open."""
    flow = state.connection.flow
    size = len(flow)
    opener_known = i64(read_i16_be(flow, size - 4)) & 0xFFFF in ports
    accepter_known = i64(read_i16_be(flow, size - 2)) & 0xFFFF in ports
    if brokers:
        address = (size - 4) // 2
        is_opener = flow[:address] + flow[size - 4 : size - 2] in brokers
        is_accepter = flow[address : address * 2] + flow[size - 2 :] in brokers
        if is_opener != is_accepter:
            state.request_direction = ACCEPTER if is_opener else OPENER
            state.broker_side_by = "user"
            return
    if state.connection.syn_seen:
        state.request_direction = OPENER
        state.broker_side_by = "syn"
    elif opener_known != accepter_known:
        state.request_direction = OPENER if accepter_known else ACCEPTER
        state.broker_side_by = "port"
