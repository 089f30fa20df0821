"""The brokers' own request logs, digested: every exchange they completed, and its answer."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.record.request_entries import iter_entries

TOPIC_LISTS = ("topics", "topicData", "responses")
CAPITAL = re.compile("[A-Z]")
PARTITION_LISTS = ("partitions", "partitionData", "partitionResponses")


class LoggedExchange(NamedTuple):
    """One completed request; the fields are columns of the side-car's `exchanges`."""

    connection: str
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    logged_ms: int
    total_ms: float
    throttle_ms: float
    errors: list[list[Any]] | None  # None: a release that does not log them
    node_id: int


class LoggedPartition(NamedTuple):
    """A topic-partition of a logged Produce, Fetch, ListOffsets or OffsetCommit."""

    exchange: int
    topic: str | None
    topic_id: str | None
    partition: int
    error_code: int | None
    records_size: int | None
    base_offset: int | None
    fetch_offset: int | None
    high_watermark: int | None


class LoggedMembership(NamedTuple):
    """A JoinGroup, SyncGroup, LeaveGroup or failed Heartbeat, as the broker answered it."""

    exchange: int
    api_key: int
    group: str
    generation: int | None
    member_id: str | None
    error_code: int
    member_count: int | None


class RequestLog(NamedTuple):
    """Log entries about one listener."""

    exchanges: list[LoggedExchange]
    partitions: list[LoggedPartition]
    memberships: list[LoggedMembership]


API_PRODUCE, API_FETCH = 0, 1
API_JOIN_GROUP, API_HEARTBEAT, API_LEAVE_GROUP, API_SYNC_GROUP = 11, 12, 13, 14


def read_request_logs(logs: dict[int, Path], listeners: list[str], until_ms: int) -> RequestLog:
    """Process the request logs of captured listeners up to a time, node by node."""
    log = RequestLog([], [], [])
    for node_id, path in logs.items():
        for logged_ms, entry in iter_entries(path):
            is_captured = entry["listener"] is None or entry["listener"] in listeners
            if is_captured and logged_ms <= until_ms and not entry["isForwarded"]:
                _add(log, node_id, logged_ms, entry)
    return log


def _add(log: RequestLog, node_id: int, logged_ms: int, entry: dict[str, Any]) -> None:
    header = entry["requestHeader"]
    request, response = entry["request"] or {}, entry["response"] or {}
    number = len(log.exchanges)
    log.exchanges.append(
        LoggedExchange(
            entry["peer"],
            header["requestApiKey"],
            header["requestApiVersion"],
            header["correlationId"],
            header.get("clientId"),
            logged_ms,
            entry["totalTimeMs"],
            entry["throttleTimeMs"],
            None if entry["request"] is None else list(iter_errors(response)),
            node_id,
        )
    )
    if entry["request"] is None:
        return
    if header["requestApiKey"] in (API_PRODUCE, API_FETCH):
        log.partitions.extend(_iter_partitions(number, request, response))
    membership = _membership(number, header["requestApiKey"], request, response)
    if membership is not None:
        log.memberships.append(membership)


def iter_errors(value: Any, path: str = "") -> Iterator[list[Any]]:
    """Every error code other than 0 anywhere in a response, as [path, code], in snake_case."""
    if isinstance(value, list):
        for index, element in enumerate(value):
            yield from iter_errors(element, f"{path}[{index}]")
    if isinstance(value, dict):
        for name, element in value.items():
            word = CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name)
            inner = f"{path}.{word}" if path else word
            if name.endswith("rrorCode") and element:
                yield [inner, element]
            yield from iter_errors(element, inner)


def _membership(
    number: int, api_key: int, request: dict[str, Any], response: dict[str, Any]
) -> LoggedMembership | None:
    if api_key not in (API_JOIN_GROUP, API_HEARTBEAT, API_LEAVE_GROUP, API_SYNC_GROUP):
        return None
    error_code = response.get("errorCode", 0)
    if api_key == API_HEARTBEAT and not error_code:
        return None
    answered = response if api_key == API_JOIN_GROUP else request
    if api_key == API_LEAVE_GROUP and request.get("members"):  # from version 3 on
        answered = request["members"][0]
    return LoggedMembership(
        number,
        api_key,
        request["groupId"],
        answered.get("generationId"),
        answered.get("memberId"),
        error_code,
        len(response.get("members", ())),
    )


def _iter_partitions(
    number: int, request: dict[str, Any], response: dict[str, Any]
) -> Iterator[LoggedPartition]:
    """Requested partitions joined with answered ones; either side may be missing."""
    asked = dict(_walk(request))
    answered = dict(_walk(response))
    for key in asked | answered:
        question, answer = asked.get(key, {}), answered.get(key, {})
        yield LoggedPartition(
            number,
            key[0],
            key[1],
            key[2],
            answer.get("errorCode"),
            question.get("recordsSizeInBytes", answer.get("recordsSizeInBytes")),
            answer.get("baseOffset"),
            question.get("fetchOffset"),
            answer.get("highWatermark"),
        )


def _walk(message: dict[str, Any]) -> Iterator[tuple[tuple[str | None, str | None, int], Any]]:
    """((topic, topic id, partition), its object) for every topic-partition of a message."""
    for topic in _first(message, TOPIC_LISTS):
        name = topic.get("name", topic.get("topic"))
        for partition in _first(topic, PARTITION_LISTS):
            index = partition.get("partitionIndex", partition.get("partition"))
            index = partition.get("index") if index is None else index
            yield (name, topic.get("topicId"), index), partition


def _first(message: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    return next((message[name] for name in names if message.get(name)), [])
