"""Tables of Produce attempts to partition 0 of topic t, in order."""

from typing import Any

from tests.analysis.made_tables import MS, START, Row, connection, exchange

TOO_LARGE = {"error_code": 10, "error": "MESSAGE_TOO_LARGE", "base_offset": -1}
NOT_LEADER = {"error_code": 6, "error": "NOT_LEADER_OR_FOLLOWER", "base_offset": -1}
LOST = {"outcome": "unanswered", "response_start": None, "response_end": None}
SILENT = {"outcome": "no_response_expected", "response_end": None}


class Sent:
    """Tables of Produce attempts, in order."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {
            "exchanges": [], "partitions": [], "batches": [],
            "connections": [connection(1), connection(2, first_time=START + 900 * MS)],
        }  # fmt: skip

    def add(
        self,
        at_s: float,
        answer: Row | int,
        *,
        on: int = 1,
        client: str = "p",
        sequence: int | None = None,
        at_ms: int = 0,
        damaged: bool = False,
        **more: Any,
    ) -> "Sent":
        number = len(self.rows["exchanges"]) + 1
        place = {"exchange_id": number, "topic": "t", "partition": 0, "record_count": 3}
        answered = {"error_code": 0, "base_offset": answer} if isinstance(answer, int) else answer
        codes = ("error_code", "error", "base_offset")
        about = {key: value for key, value in answered.items() if key not in codes}
        self.rows["exchanges"].append(
            exchange(
                number, "Produce", 10, at_s, connection_id=on, client_id=client,
                **({"acks": -1} | about | more),
            )
        )  # fmt: skip
        self.rows["partitions"].append(place | {key: answered.get(key) for key in codes})
        if damaged:
            return self
        time = START + at_ms * MS
        is_counted = sequence is not None
        self.rows["batches"].append(
            place | {
                "magic": 2, "compressed_size": 300, "codec": "none", "crc": 1000 + at_ms,
                "base_time": time, "max_time": time,
                "producer_id": 7 if is_counted else None,
                "producer_epoch": 0 if is_counted else None, "base_sequence": sequence,
            }
        )  # fmt: skip
        return self
