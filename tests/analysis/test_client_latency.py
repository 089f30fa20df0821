"""Latency in the clients' own logs against kdissect's, for every request that they logged.

A Java client logs a request before it writes it, and a response after it has read it, with times
truncated to milliseconds. The packets lie in between, so the client's measurement is never shorter
than the exchange, except for the truncated millisecond. The excess is the client's own time: to
encode and write, and until its thread is woken and has read. On a loopback there is no network in
between, and the capture has the client's clock.
"""

from collections import Counter, defaultdict
from functools import cache
from typing import NamedTuple

import pytest

import kdissect
from tests.analysis.from_sidecars import tables_of_sidecar
from tests.analysis.staged import MS, Row, percentile

CALM = "client-latency-4.3.1"
CAPTURES = (
    CALM,
    "incident-slow-follower-4.3.1",
    "incident-slow-leader-4.3.1",
    "incident-leader-killed-4.3.1",
    "incident-leader-stopped-4.3.1",
    "incident-lagging-follower-4.3.1",
    "incident-lossy-network-4.3.1",
)
WRITER = "measured-writer"
RESOLUTION_NS = MS  # of the clients' logs
# The first requests of a kind make a JVM load the classes for them, which takes up to a second.
COLD_REQUESTS = 5
# The machine that recorded had two cores and much else to do; a thread that is woken waits until
# others have had their time slices of some milliseconds.
TURNS_NS = 50 * MS
CALM_TURNS_NS = 25 * MS


class Measured(NamedTuple):
    """An exchange as the client logged it and as the packets have it, in ns."""

    request: Row
    exchange: Row

    @property
    def client_ns(self) -> int:
        taken: int = self.request["received_ms"] - self.request["sent_ms"]
        return taken * MS

    @property
    def seen_ns(self) -> int:
        """kdissect's: from the first packet of the request to the last of the response."""
        row = self.exchange
        taken: int = row["upload_ns"] + row["latency_ns"] + row["download_ns"]
        return taken

    @property
    def before_ns(self) -> int:
        """From the log's line to the first packet of the request."""
        started: int = self.exchange["request_start"].value
        return started - int(self.request["sent_ms"]) * MS

    @property
    def after_ns(self) -> int:
        """From the last packet of the response to the log's line."""
        ended: int = self.exchange["response_end"].value
        return int(self.request["received_ms"]) * MS - ended


@cache
def matched(name: str) -> list[Measured]:
    """Every request of the clients' logs with the one exchange of its correlation id."""
    exchanges = defaultdict(list)
    for row in kdissect.read(f"captures/{name}.pcapng", table="exchanges").to_arrow().to_pylist():
        exchanges[row["client_id"], row["correlation_id"]].append(row)
    found = []
    for request in tables_of_sidecar(name)["client_requests"]:
        (exchange,) = exchanges[request["session"], request["correlation_id"]]
        found.append(Measured(request, exchange))
    return found


@cache
def answered(name: str) -> list[Measured]:
    return [pair for pair in matched(name) if pair.request["received_ms"] is not None]


@pytest.mark.parametrize("name", CAPTURES)
def test_each_request_that_a_client_logged_is_one_exchange(name: str) -> None:
    pairs = matched(name)
    assert len(pairs) > 40
    for request, exchange in pairs:
        assert request["api"].replace("_", "") == exchange["api"].upper()
        assert request["api_version"] == exchange["api_version"]
        if request["received_ms"] is not None:
            assert exchange["outcome"] == "answered"


@pytest.mark.parametrize("name", CAPTURES)
def test_no_exchange_began_before_its_client_sent_or_ended_after_it_received(name: str) -> None:
    for pair in answered(name):
        assert pair.before_ns > 0
        assert pair.after_ns > -RESOLUTION_NS
        assert pair.client_ns - pair.seen_ns == pair.before_ns + pair.after_ns
        assert pair.client_ns > pair.seen_ns - RESOLUTION_NS


def warm(name: str) -> list[Measured]:
    """Without the first requests of each kind."""
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    for pair in answered(name):
        kind = pair.request["session"], pair.request["api"]
        counts[kind] += 1
        if counts[kind] > COLD_REQUESTS:
            found.append(pair)
    return found


def longer(pairs: list[Measured]) -> list[int]:
    """Excess of the client's times."""
    return [pair.client_ns - pair.seen_ns for pair in pairs]


@pytest.mark.parametrize("name", CAPTURES)
def test_client_side_excess_latency_is_thread_scheduling(name: str) -> None:
    pairs = warm(name)
    assert len(pairs) > 25
    assert max(longer(pairs)) < (CALM_TURNS_NS if name == CALM else TURNS_NS)
    assert max(pair.before_ns for pair in pairs) < TURNS_NS


def test_a_client_of_a_calm_machine_waited_two_milliseconds_longer() -> None:
    """One to encode and write, one for the log that cuts and the thread that reads."""
    pairs = warm(CALM)
    assert len(pairs) == 142
    assert percentile([pair.before_ns for pair in pairs], 0.5) < 1.1 * MS
    assert percentile([pair.after_ns for pair in pairs], 0.5) < RESOLUTION_NS
    assert percentile(longer(pairs), 0.5) < 2 * MS


def test_it_is_the_same_for_long_and_short_exchanges() -> None:
    """Long polls and a stalled broker: long times are measured accurately, too."""
    pairs = warm(CALM)
    long = [pair for pair in pairs if pair.seen_ns > 100 * MS]
    short = [pair for pair in pairs if pair.seen_ns <= 100 * MS]
    assert (len(long), len(short)) == (16, 126)
    medians = [percentile(longer(some), 0.5) for some in (long, short)]
    assert abs(medians[0] - medians[1]) < RESOLUTION_NS


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_percentiles_match_the_clients_within_its_excess_latency(share: float) -> None:
    for name in CAPTURES:
        pairs = warm(name)
        client = percentile([pair.client_ns for pair in pairs], share)
        seen = percentile([pair.seen_ns for pair in pairs], share)
        assert -RESOLUTION_NS < client - seen < max(longer(pairs))


def test_percentiles_of_latency_are_those_of_the_exchanges() -> None:
    """Nothing was queued, and request and response are a packet each."""
    chosen = f"client_id = '{WRITER}' and api = 'Produce'"
    answer = kdissect.analyse("latency", f"captures/{CALM}.pcapng", where=chosen)
    (row,) = answer.to_arrow().to_pylist()
    pairs = [
        pair
        for pair in answered(CALM)
        if (pair.request["session"], pair.request["api"]) == (WRITER, "PRODUCE")
    ]
    assert row["exchanges"] == len(pairs)
    for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
        client = percentile([pair.client_ns for pair in pairs], share)
        assert -RESOLUTION_NS < client - row[name] < CALM_TURNS_NS
