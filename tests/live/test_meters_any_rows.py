"""Rows with anything in them, as hostile captures make them, are counted; nothing is raised."""

import json
from typing import Any

import pytest
from hypothesis import given as for_any
from hypothesis import settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kdissect.exchanges.exchange import OUTCOMES
from kdissect.live.counting.lines import json_of, line_of
from kdissect.live.counting.meters import Meters
from kdissect.live.counting.metrics import MetricsListener
from kdissect.live.counting.snapshot import Focus
from tests.live.made_rows import START, given, handed, status

TEXTS = st.none() | st.sampled_from(["", "a", "b", "other", "none", "\n", "x" * 400])
APIS = TEXTS | st.sampled_from(["Produce", "Fetch", "OffsetCommit"])
IDS = st.integers(0, 6)
TIMES = st.none() | st.integers(START - 10**12, START + 10**12)
DURATIONS = st.none() | st.integers(-(10**15), 2**62 - 1)
SIZES = st.none() | st.integers(0, 2**31 - 1)
COUNTS = st.none() | st.integers(0, 1000)
OFFSETS = st.none() | st.integers(-1, 9) | st.integers(0, 2**63 - 1)
CODES = st.none() | st.integers(-1, 300)
EXCHANGE = st.fixed_dictionaries(
    {
        "exchange_id": IDS, "connection_id": IDS, "api": APIS, "client_id": TEXTS,
        "outcome": st.sampled_from(OUTCOMES), "request_start": TIMES, "response_start": TIMES,
        "latency_ns": DURATIONS, "queue_ns": DURATIONS, "wait_ns": DURATIONS,
        "request_size": SIZES, "response_size": SIZES, "error": TEXTS, "error_count": COUNTS,
        "retransmits": COUNTS, "zero_windows": COUNTS, "missing_bytes": SIZES,
        "group_id": TEXTS, "response_end": TIMES,
    }
)  # fmt: skip
PARTITION = st.fixed_dictionaries(
    {"exchange_id": IDS, "topic": TEXTS, "topic_id": TEXTS, "error_code": CODES,
     "record_bytes": SIZES, "record_count": COUNTS, "partition": st.integers(0, 1),
     "base_offset": OFFSETS, "committed_offset": OFFSETS, "high_watermark": OFFSETS}
)  # fmt: skip
ERROR = st.fixed_dictionaries(
    {"exchange_id": IDS, "name": TEXTS, "topic": TEXTS, "is_retriable": st.none() | st.booleans()}
)
MEMBER = st.fixed_dictionaries(
    {"exchange_id": IDS, "time": TIMES, "group_id": TEXTS, "member_id": TEXTS, "error": TEXTS,
     "event": st.sampled_from(["join", "sync", "assign", "leave", "heartbeat", "owned"]),
     "generation": st.none() | st.integers(-2, 2**31 - 1)}
)  # fmt: skip
ENDED = st.fixed_dictionaries(
    {"connection_id": IDS, "client_ip": TEXTS, "client_port": st.none() | st.integers(0, 65535)}
)


def unique(rows: Any) -> Any:
    return st.lists(rows, max_size=7, unique_by=lambda row: row["exchange_id"])


BATCHES = st.fixed_dictionaries(
    {"exchanges": unique(EXCHANGE), "partitions": st.lists(PARTITION, max_size=9),
     "errors": st.lists(ERROR, max_size=5), "members": st.lists(MEMBER, max_size=6),
     "connections": st.lists(ENDED, max_size=3)}
)  # fmt: skip
FOCUS = st.builds(Focus, *(st.sampled_from(["", "a", "b", "nobody"]) for _ in range(3)))


@pytest.mark.slow
@settings(max_examples=60)
@for_any(st.lists(BATCHES, min_size=1, max_size=3), FOCUS, st.integers(1, 10))
def test_any_rows_are_counted(batches: list[Any], focus: Focus, kept_rows: int) -> None:
    meters, small, metrics = Meters(), Meters(kept_rows=kept_rows), MetricsListener(labels=2)
    for second, rows in enumerate(batches, 1):
        for listener in (meters, small, metrics):
            given(listener, handed(rows))
            listener.tick(status(second))
    count = sum(len(rows["exchanges"]) for rows in batches)
    whole = meters.snapshot()
    assert round(whole.whole.rate * whole.window_s) == count
    assert round(sum(api.rate for api in whole.apis) * whole.window_s) == count
    for taken in (whole, meters.snapshot(focus), small.snapshot(), small.snapshot(focus)):
        json.dumps(json_of(taken))
        assert len(line_of(taken)) <= 100
    registry = CollectorRegistry()
    registry.register(metrics)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    values = {family.name: family.samples for family in families}
    assert sum(sample.value for sample in values["kdissect_exchanges"]) == count
