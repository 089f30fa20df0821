"""The broker's own request log, digested: every exchange it completed, and what it answered.

A line is the time it was logged (ms), a space, and the JSON of kafka.request.logger.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
    errors: list[list[Any]]


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
    """All that the log says about one listener."""

    exchanges: list[LoggedExchange]
    partitions: list[LoggedPartition]
    memberships: list[LoggedMembership]


API_PRODUCE, API_FETCH = 0, 1
API_JOIN_GROUP, API_HEARTBEAT, API_LEAVE_GROUP, API_SYNC_GROUP = 11, 12, 13, 14


def read_request_log(path: Path, listener: str) -> RequestLog:
    """Digest the lines of one listener, in the order they were logged."""
    log = RequestLog([], [], [])
    for logged_ms, entry in _iter_entries(path):
        if entry["listener"] != listener or entry["isForwarded"]:
            continue
        header = entry["requestHeader"]
        request, response = entry["request"] or {}, entry["response"] or {}
        number = len(log.exchanges)
        log.exchanges.append(
            LoggedExchange(
                _client_end(entry["connection"]),
                header["requestApiKey"],
                header["requestApiVersion"],
                header["correlationId"],
                header["clientId"],
                logged_ms,
                entry["totalTimeMs"],
                entry["throttleTimeMs"],
                list(iter_errors(response)),
            )
        )
        if header["requestApiKey"] in (API_PRODUCE, API_FETCH):
            log.partitions.extend(_iter_partitions(number, request, response))
        membership = _membership(number, header["requestApiKey"], request, response)
        if membership is not None:
            log.memberships.append(membership)
    return log


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


def _iter_entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            logged_ms, text = line.split(" ", 1)
            text = text.removeprefix("Completed request:")
            yield int(logged_ms), json.loads(text)


def _client_end(connection: str) -> str:
    """The client's "ip:port" out of "ip:port-ip:port-index-..."."""
    return connection.split("-")[1]


def _membership(
    number: int, api_key: int, request: dict[str, Any], response: dict[str, Any]
) -> LoggedMembership | None:
    if api_key not in (API_JOIN_GROUP, API_HEARTBEAT, API_LEAVE_GROUP, API_SYNC_GROUP):
        return None
    error_code = response.get("errorCode", 0)
    if api_key == API_HEARTBEAT and not error_code:
        return None
    answered = response if api_key == API_JOIN_GROUP else request
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
