"""Matches a response with a request where the correlation id alone is ambiguous.

Controllers of Kafka 0.8 use the same id for LeaderAndIsr, StopReplica and UpdateMetadata of one
round, and some clients use it for all their requests. Without loss the order decides; behind a
hole, and for a response that was captured before its request, only its content.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.exchanges.connection_state import ConnectionState
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.layout_fit import EXACT, NOT, LayoutFit
from kdissect.framing.frames import Frame
from kdissect.messages.extracted import FieldSink
from kdissect.messages.headers import response_body_offset
from kdissect.messages.interner import Interner

LEADER_AND_ISR: Final = 4
UPDATE_METADATA: Final = 6


def has_shared_id(state: ConnectionState, exchange: Exchange) -> bool:
    """Return whether other requests of the connection may have the correlation id of this one."""
    return state.repeats_ids or is_of_round(exchange)


def is_of_round(exchange: Exchange) -> bool:
    """Return whether a controller of Kafka 0.8 may have sent it."""
    key: i64 = exchange.api_key
    return LEADER_AND_ISR <= key <= UPDATE_METADATA and exchange.api_version == 0


class Answer:
    """A response that is compared with one request after the other.

    It is read once for each distinct layout of theirs, however many they are.
    """

    __slots__ = ("_layout_fit", "_frame", "_fits", "_named")

    def __init__(self, layout_fit: LayoutFit, frame: Frame) -> None:
        self._layout_fit = layout_fit
        self._frame = frame
        # By API key and version, and by API key.
        self._fits: dict[int, int] = {}
        self._named: dict[int, frozenset[tuple[str, int]]] = {}

    def may_be_to(self, exchange: Exchange) -> bool:
        """Return whether it may answer the request, by its layout and its partitions.

        All of it must fit, or all that was captured of it.
        """
        fit = self._fit(exchange.api_key, exchange.api_version)
        if fit == NOT:
            return False
        asked = exchange.partitions
        if fit != EXACT or asked is None or exchange.missing_bytes or not is_of_round(exchange):
            return True
        # LeaderAndIsr and StopReplica are answered in one layout, with the partitions they name.
        return self._answered(exchange) <= asked.named()

    def _fit(self, key: i64, version: i64) -> i64:
        layout = key << 16 | (version & 0xFFFF)
        known = self._fits.get(layout, -1)
        if known < 0:
            frame = self._frame
            known = self._layout_fit.response(key, version, frame.data, frame.size)
            self._fits[layout] = known
        return known

    def _answered(self, exchange: Exchange) -> frozenset[tuple[str, int]]:
        """Topic and partition of each entry of the response, read as an answer to the request."""
        known = self._named.get(exchange.api_key)
        if known is None:
            known = answered_partitions(self._layout_fit, exchange, self._frame.data)
            self._named[exchange.api_key] = known
        return known


def may_answer(layout_fit: LayoutFit, exchange: Exchange, frame: Frame) -> bool:
    """Return whether the response in `frame` may answer a request, see `Answer`."""
    return Answer(layout_fit, frame).may_be_to(exchange)


def answered_partitions(
    layout_fit: LayoutFit, exchange: Exchange, data: bytes
) -> frozenset[tuple[str, int]]:
    """Topic and partition of each entry of a whole response in the request's layout."""
    key = exchange.api_key
    sink = FieldSink(Interner(), {})
    try:
        plan = layout_fit.plans.get(key, exchange.api_version, True)
        plan.run(data, response_body_offset(key, exchange.api_version, data), sink)
    except DecodeError:
        return frozenset()
    partitions = sink.take_partitions()
    return partitions.named() if partitions is not None else frozenset()
