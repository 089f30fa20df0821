from typing import Any

from kdissect.cli.tree import exchange_json, exchange_lines, hexdump, preview, tree_lines
from kdissect.errors import DecodeError, Truncated
from kdissect.protocol.readers import ValueBudget

COLUMNS: dict[str, Any] = {
    "api": "Fetch", "api_key": 1, "api_version": 12, "correlation_id": 4711, "client_id": "c\x1b",
    "client_ip": "10.0.0.4", "client_port": 51812, "broker_ip": "10.0.0.9", "broker_port": 9092,
    "request_packet": 7, "response_packet": 9, "request_size": 10, "response_size": 20,
    "request_start": 1_700_000_000_000_000_001, "request_end": None, "response_start": None,
    "response_end": None, "outcome": "answered", "latency_ns": 1_500_000, "queue_ns": 0,
    "wait_ns": 500_000, "work_ns": 1_000_000, "error": None, "error_code": 0,
    "decode_status": "response", "dialect": 0,
}  # fmt: skip
TIME_MS = 1_700_000_000_000
RECORD = {
    "offset": 5,
    "time_ms": 1_700_000_000_000,
    "key": b"k",
    "value": b"\xff\x00",
    "headers": [("trace", b"x")],
}


class FakeExchange:
    """A `DissectedExchange` with a request that decodes and a response that does not."""

    columns = COLUMNS

    def __getattr__(self, name: str) -> Any:
        return COLUMNS[name]

    def body(self, side: str) -> dict[str, Any]:
        if side == "response":
            raise Truncated("length 300, only 2 bytes left", offset=2, data=b"\0\1\1\x2c\xab\xcd")
        return {"max_wait_ms": 500, "records": [{"codec": "none", "records": [RECORD]}]}

    def shown(self) -> ValueBudget:
        return ValueBudget(1 << 20)

    def frame_bytes(self, side: str) -> bytes:
        return b"\0\1\1\x2c\xab\xcd"


def shown(has_payload: bool) -> list[str]:
    return list(exchange_lines(FakeExchange(), has_payload))  # type: ignore[arg-type]


def test_an_exchange_is_shown_with_everything_but_the_payload() -> None:
    assert shown(has_payload=False) == [
        "Fetch v12  10.0.0.4:51812 → 10.0.0.9:9092  packets 7 → 9  correlation id 4711",
        "  answered after 1.5 ms (wait 500 µs, broker time 1 ms), decoded: response",
        '  client id "c\\e", at 2023-11-14 22:13:20.000000001Z',
        "  request, 10 bytes",
        "    max_wait_ms: 500",
        "    records (1)",
        '      - codec: "none"',
        "        records (1)",
        f"          - offset: 5, time_ms: {TIME_MS}, key_size: 1, value_size: 2, header_count: 1",
        "  response, 20 bytes",
        "    cannot be decoded: length 300, only 2 bytes left, byte 2 of 6",
        "    00000000  00 01 01 2c ab cd",
        "                    ^^ length 300, only 2 bytes left",
    ]


def test_the_payload_is_shown_when_asked_for() -> None:
    assert shown(has_payload=True)[8:14] == [
        "          - offset: 5",
        "            time_ms: 1700000000000",
        '            key: 1 byte "k"',
        "            value: 2 bytes ff 00",
        "            headers (1)",
        '              - key: "trace", value: 1 byte "x"',
    ]


def test_json_has_the_columns_and_both_bodies() -> None:
    found = exchange_json(FakeExchange(), True)  # type: ignore[arg-type]
    expected = COLUMNS | {
        "request_start": "2023-11-14T22:13:20.000000001Z",
        "request": {
            "max_wait_ms": 500,
            "records": [
                {
                    "codec": "none",
                    "records": [
                        {
                            "offset": 5,
                            "time_ms": 1_700_000_000_000,
                            "key": "k",
                            "value": {"base64": "/wA="},
                            "headers": [{"key": "trace", "value": "x"}],
                        }
                    ],
                }
            ],
        },
        "response": None,
        "response_error": "length 300, only 2 bytes left, byte 2 of 6",
    }
    assert found == expected


def test_json_has_sizes_in_place_of_the_payload() -> None:
    found = exchange_json(FakeExchange(), False)  # type: ignore[arg-type]
    assert found["request"]["records"][0]["records"] == [
        {"offset": 5, "time_ms": 1_700_000_000_000, "key_size": 1, "value_size": 2,
         "header_count": 1}
    ]  # fmt: skip


def test_error_codes_have_their_names_and_empty_things_are_shown() -> None:
    body = {"error_code": 3, "topics": [], "tags": {}, "name": None, "is_internal": False}
    assert list(tree_lines(body, "")) == [
        "error_code: 3 UNKNOWN_TOPIC_OR_PARTITION",
        "topics: []",
        "tags: {}",
        "name: null",
        "is_internal: false",
    ]


def test_a_preview_does_not_cut_a_character() -> None:
    assert preview(("é" * 40).encode()) == f'80 bytes "{"é" * 32}"…'
    assert preview(("aé" + "é" * 40).encode()) == f'83 bytes "a{"é" * 31}"…'


def test_hexdump_reports_omitted_bytes() -> None:
    assert list(hexdump(b"Kafka\x00" + bytes(30), rows=1)) == [
        "00000000  4b 61 66 6b 61 00 00 00  00 00 00 00 00 00 00 00  Kafka...........",
        "          20 more bytes",
    ]


def test_undecodable_bytes_without_an_offset_are_dumped() -> None:
    class Wrong(FakeExchange):
        def body(self, side: str) -> dict[str, Any]:
            raise DecodeError("no layout")

    lines = list(exchange_lines(Wrong(), False))  # type: ignore[arg-type]
    assert lines[4:6] == [
        "    cannot be decoded: no layout",
        "    00000000  00 01 01 2c ab cd                                 ...,..",
    ]
