"""Whether a response answers a request, where its correlation id alone does not say so.

Controllers of Kafka 0.8 give LeaderAndIsr, StopReplica and UpdateMetadata of one round the same id,
and some clients give it to all their requests. Where nothing is lost the order tells; behind a
hole, and of a response that was captured before its request, only what is in it.
"""

from typing import Final

from mypy_extensions import i64

from kdissect.errors import DecodeError
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.fitting import EXACT, NOT, Fitting
from kdissect.exchanges.memory import ConnectionState
from kdissect.exchanges.merging import is_same_partition
from kdissect.frames import Frame
from kdissect.messages.facts import FactSink
from kdissect.messages.headers import response_body_offset
from kdissect.messages.interner import Interner
from kdissect.messages.partitions import Partition

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6


def has_shared_id(state: ConnectionState, exchange: Exchange) -> bool:
    """Whether other requests of the connection may have the correlation id of this one."""
    return state.repeats_ids or is_of_round(exchange)


def is_of_round(exchange: Exchange) -> bool:
    """Whether a controller of Kafka 0.8 may have sent it."""
    key: i64 = exchange.api_key
    return LEADER_AND_ISR <= key <= UPDATE_METADATA and exchange.api_version == 0


def may_answer(fitting: Fitting, exchange: Exchange, frame: Frame) -> bool:
    """Whether the response in `frame` may answer the request, by its layout and its partitions.

    All of it must fit, or all that was captured of it.
    """
    key = exchange.api_key
    fit = fitting.response(key, exchange.api_version, frame.data, frame.size)
    if fit == NOT:
        return False
    asked = exchange.partitions
    if fit != EXACT or asked is None or exchange.missing_bytes or not is_of_round(exchange):
        return True
    # LeaderAndIsr and StopReplica are answered in one layout, about the partitions they name.
    named = asked.rows()
    return all(is_among(row, named) for row in answered_partitions(fitting, exchange, frame.data))


def answered_partitions(fitting: Fitting, exchange: Exchange, data: bytes) -> list[Partition]:
    """The partitions that a whole response names, which fits the request's layout."""
    key = exchange.api_key
    sink = FactSink(Interner(), {})
    try:
        plan = fitting.plans.get(key, exchange.api_version, True)
        plan.run(data, response_body_offset(key, exchange.api_version, data), sink)
    except DecodeError:
        return []
    partitions = sink.take_partitions()
    return partitions.rows() if partitions is not None else []


def is_among(row: Partition, rows: list[Partition]) -> bool:
    """Whether one of the rows is of the same topic-partition."""
    return any(is_same_partition(one, row) for one in rows)
