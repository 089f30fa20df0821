"""The lines of kafka.request.logger, as every release writes them, in the shape of the newest.

From 2.8 on a line is JSON. Before, it is text: three dialects of the header, and bodies that are
not read here: then `request` and `response` are None.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tools.record.terminator import SEEN_AS

NAMES_BY_KEY = """
    PRODUCE FETCH LIST_OFFSETS METADATA LEADER_AND_ISR STOP_REPLICA UPDATE_METADATA
    CONTROLLED_SHUTDOWN OFFSET_COMMIT OFFSET_FETCH FIND_COORDINATOR JOIN_GROUP HEARTBEAT
    LEAVE_GROUP SYNC_GROUP DESCRIBE_GROUPS LIST_GROUPS SASL_HANDSHAKE API_VERSIONS CREATE_TOPICS
    DELETE_TOPICS DELETE_RECORDS INIT_PRODUCER_ID OFFSET_FOR_LEADER_EPOCH ADD_PARTITIONS_TO_TXN
    ADD_OFFSETS_TO_TXN END_TXN WRITE_TXN_MARKERS TXN_OFFSET_COMMIT DESCRIBE_ACLS CREATE_ACLS
    DELETE_ACLS DESCRIBE_CONFIGS ALTER_CONFIGS ALTER_REPLICA_LOG_DIRS DESCRIBE_LOG_DIRS
    SASL_AUTHENTICATE CREATE_PARTITIONS CREATE_DELEGATION_TOKEN RENEW_DELEGATION_TOKEN
    EXPIRE_DELEGATION_TOKEN DESCRIBE_DELEGATION_TOKEN DELETE_GROUPS ELECT_LEADERS
    INCREMENTAL_ALTER_CONFIGS ALTER_PARTITION_REASSIGNMENTS LIST_PARTITION_REASSIGNMENTS
    OFFSET_DELETE
"""
API_NAMES = NAMES_BY_KEY.split()
SCALA_NAMES = {
    "ProducerRequest": 0,
    "OffsetRequest": 2,
    "TopicMetadataRequest": 3,
    "ConsumerMetadataRequest": 10,
    "GroupCoordinatorRequest": 10,
}
# 0.8.2 to 0.10: "Name: FetchRequest; Version: 0; CorrelationId: 1; ClientId: x; ..."
SCALA_HEADER = re.compile(
    r"Name: ?(?P<name>\w+); ?Version: ?(?P<version>\d+);.*?"
    r"CorrelationId: ?(?P<correlation>-?\d+); ?"
    r"(?:ClientId: ?(?P<client>Some\(.*?\)|.*?)(?:;| from ))?"
)
# 0.9 to 0.11: "{api_key=18,api_version=0,correlation_id=0,client_id=x} -- {...}"
STRUCT_HEADER = re.compile(
    r"\{api_key=(?P<name>\d+),api_version=(?P<version>\d+),correlation_id=(?P<correlation>-?\d+)"
    r",client_id=(?P<client>.*?)\} -- "
)
# 1.0 to 2.7: "RequestHeader(apiKey=FETCH, apiVersion=6, clientId=x, correlationId=1) -- {...}"
CLASS_HEADER = re.compile(
    r"RequestHeader\(apiKey=(?P<name>\w+), apiVersion=(?P<version>\d+), clientId=(?P<client>.*?)"
    r", correlationId=(?P<correlation>-?\d+)\) -- "
)
HEADERS = (CLASS_HEADER, STRUCT_HEADER, SCALA_HEADER)
PEER = re.compile(r" from (?:client /|connection \S+?:\d+-)(?P<peer>[\d.]+:\d+)(?:-\d+)?;")
NUMBERS = re.compile(r"(totalTime|throttleTime):([\d.]+)")
LISTENER = re.compile(r",listener:(\w+)")


def peer_of(connection: str) -> str:
    """The client's ip:port in a connection as brokers name it, an IPv6 address as it is written
    today: "::1:50000" of "0:0:0:0:0:0:0:1:9092-0:0:0:0:0:0:0:1:50000-0-1". A client for whom a
    proxy
    of the recorder stands is told as it is before the proxy.
    """
    address, _, port = connection.split("-")[1].rpartition(":")
    address = {SEEN_AS: "127.0.0.1"}.get(address, address)
    return f"{ip_address(address.strip('[]').partition('%')[0])}:{port}"


def iter_entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(ms when it was logged, the entry) for every line; `peer` is the client's "ip:port"."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            time, text = line.rstrip("\n").split(" ", 1)
            text = text.removeprefix("Completed request:")
            if text.startswith('{"'):
                entry = json.loads(text)
                entry["peer"] = peer_of(entry["connection"])
                yield _milliseconds(time), entry
            else:
                yield _milliseconds(time), _parse(text)


def _milliseconds(time: str) -> int:
    if time.isdigit():
        return int(time)
    return round(datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp() * 1000)


def _parse(text: str) -> dict[str, Any]:
    found = [header.match(text) for header in HEADERS]
    header = next(match for match in found if match is not None)
    peer = PEER.search(text)
    assert peer is not None, text
    numbers = dict(NUMBERS.findall(text, peer.end() - 1))
    listener = LISTENER.search(text, peer.end())
    return {
        "requestHeader": {
            "requestApiKey": _api_key(header["name"]),
            "requestApiVersion": int(header["version"]),
            "correlationId": int(header["correlation"]),
            "clientId": _client_id(header["client"]),
        },
        "request": None,
        "response": None,
        "peer": peer["peer"],
        "totalTimeMs": float(numbers["totalTime"]),
        "throttleTimeMs": float(numbers.get("throttleTime", 0)),
        "listener": listener[1] if listener else None,
        "isForwarded": False,
    }


def _api_key(name: str) -> int:
    if name.isdigit():
        return int(name)
    if name in SCALA_NAMES:
        return SCALA_NAMES[name]
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Request")).upper()
    return API_NAMES.index(name if name in API_NAMES else words)


def _client_id(text: str | None) -> str | None:
    if text is None or text in ("None", "null"):
        return None
    return text.removeprefix("Some(").removesuffix(")") if text.startswith("Some(") else text
