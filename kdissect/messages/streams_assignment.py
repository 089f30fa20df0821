"""Decodes AssignmentInfo, which the leader of a Kafka Streams group sends to each member.

    info        int32 version, [3+] int32 newest version, int32 n, n * task,
                int32 n, n * { task, partitions }, hosts, [4+] int32 error code, [7+] int64 time
    hosts       2-4: int32 n, n * { host, partitions }      5: topics, map      6+: topics, map, map
    task        int32 subtopology, int32 partition, [10+] int32 size, that many UTF-16BE characters
    host        text, int32 port
    partitions  int32 n, n * { text topic, int32 partition }
    topics      int32 n, n * { int32 index, text topic }
    map         int32 n, n * { host, int32 n, n * { int32 index, int32 partition } }
    text        uint16 size, modified UTF-8

Counts are accepted only if the remaining bytes suffice for the minimum size of their elements.
"""

from collections.abc import Callable
from typing import Any, Final

from kdissect.errors import InvalidValue, left_over
from kdissect.messages.layout_choice import Body
from kdissect.messages.value_budget import charge
from kdissect.protocol.primitives import (
    check_offset,
    read_int32,
    read_int64,
    read_uint16,
    text_of,
)
from kdissect.protocol.structures import read_count

NEWEST: Final = 11
# A partition of a host, 8 bytes, becomes a task and a partition: two dicts of two integers each.
RATIO: Final = 64
Read = Callable[[bytes, int], tuple[Any, int]]


def decode_streams_assignment(data: bytes) -> Body:
    """Decode all of `data`; raise DecodeError."""
    charge(data, RATIO)
    version, offset = read_int32(data, 0)
    if not 1 <= version <= NEWEST:
        raise InvalidValue(f"AssignmentInfo version {version}", offset=0, data=data, length=4)
    task = read_named_task if version >= 10 else read_task
    values: Body = {"version": int(version)}
    if version >= 3:
        values["latest_supported_version"], offset = read_int32(data, offset)
    values["active_tasks"], offset = read_list(data, offset, task, 8)
    values["standby_tasks"] = []
    count, offset = read_count(data, offset, False, 12)
    for _ in range(max(0, count)):
        entry, offset = task(data, offset)
        entry["partitions"], offset = read_list(data, offset, read_partition, 6)
        values["standby_tasks"].append(entry)
    if version >= 2:
        offset = read_hosts(data, offset, int(version), values)
    if version >= 4:
        values["error_code"], offset = read_int32(data, offset)
    if version >= 7:
        values["next_rebalance_ms"], offset = read_int64(data, offset)
    if offset != len(data):
        raise left_over(offset, data)
    return values


def read_hosts(data: bytes, offset: int, version: int, values: Body) -> int:
    """Add the partitions of each host to `values`."""
    if version < 5:
        values["partitions_by_host"], offset = read_list(data, offset, read_host, 10)
        return offset
    topics, offset = read_list(data, offset, read_topic, 6)
    names: dict[int, str] = dict(topics)
    values["partitions_by_host"], offset = read_indexed_hosts(data, offset, names)
    if version >= 6:
        standby, offset = read_indexed_hosts(data, offset, names)
        values["standby_partitions_by_host"] = standby
    return offset


def read_list(data: bytes, offset: int, read: Read, min_size: int) -> tuple[list[Any], int]:
    """Read a counted list; each element takes `min_size` bytes at least."""
    count, offset = read_count(data, offset, False, min_size)
    values = []
    for _ in range(max(0, count)):
        value, offset = read(data, offset)
        values.append(value)
    return values, offset


def read_text(data: bytes, offset: int) -> tuple[str, int]:
    """Read a string of Java's writeUTF."""
    size, start = read_uint16(data, offset)
    check_offset(data, start, size, "text")
    return text_of(data, start, start + size), start + size


def read_task(data: bytes, offset: int) -> tuple[Body, int]:
    subtopology, offset = read_int32(data, offset)
    partition, offset = read_int32(data, offset)
    return {"subtopology": subtopology, "partition": partition}, offset


def read_named_task(data: bytes, offset: int) -> tuple[Body, int]:
    task, offset = read_task(data, offset)
    count, offset = read_count(data, offset, False, 2)
    if count > 0:
        end = offset + 2 * count
        task["topology"] = data[offset:end].decode("utf-16-be", "backslashreplace")
        offset = end
    return task, offset


def read_partition(data: bytes, offset: int) -> tuple[Body, int]:
    topic, offset = read_text(data, offset)
    partition, offset = read_int32(data, offset)
    return {"topic": topic, "partition": partition}, offset


def read_topic(data: bytes, offset: int) -> tuple[tuple[int, str], int]:
    index, offset = read_int32(data, offset)
    topic, offset = read_text(data, offset)
    return (index, topic), offset


def read_host(data: bytes, offset: int) -> tuple[Body, int]:
    host, offset = read_text(data, offset)
    port, offset = read_int32(data, offset)
    partitions, offset = read_list(data, offset, read_partition, 6)
    return {"host": host, "port": port, "partitions": partitions}, offset


def read_indexed_hosts(data: bytes, offset: int, names: dict[int, str]) -> tuple[list[Body], int]:
    """Read hosts whose topics are numbers; one that `names` does not have stays a number."""
    count, offset = read_count(data, offset, False, 10)
    hosts = []
    for _ in range(max(0, count)):
        host, offset = read_text(data, offset)
        port, offset = read_int32(data, offset)
        pairs, offset = read_list(data, offset, read_task, 8)
        partitions = [
            {"topic": names.get(pair["subtopology"], pair["subtopology"]),
             "partition": pair["partition"]}
            for pair in pairs
        ]  # fmt: skip
        hosts.append({"host": host, "port": port, "partitions": partitions})
    return hosts, offset
