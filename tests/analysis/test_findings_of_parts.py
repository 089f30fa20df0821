"""A part of a capture has no finding that the whole does not have, except about the capture itself.

The whole has its findings, and the symptoms that they explain: where the cause is missing in the
part, its symptoms are reported as such. Symptoms that name a cause of their own are not among
those.
"""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import kdissect
from kdissect.rules import engine
from kdissect.rules.finding import NOTICE, SEVERITIES, WARNING, Finding
from tests.analysis.capture_parts import Parts, Wanted
from tests.recovery.captures import EVERY
from tests.recovery.talks import CAPTURES
from tests.seeds import SEED

# Findings about the capture itself.
OF_CAPTURE = frozenset((
    "capture-loses-packets", "connections-encrypted", "messages-undecoded", "not-asked", "no-kafka",
))  # fmt: skip
# Of these the sentence names a cause: it is false where the whole knows another.
CAUSES = frozenset(("broker-stalls", "broker-slow", "network-makes-p99"))
# The subjects of a finding; lists in a part contain some of those in the whole.
ENTITIES = ("broker", "group", "transaction", "error")
LISTS = ("clients", "client_ips", "brokers", "apis")
# A warning of these leaves open whether the broker or a follower is the cause: it is true where the
# whole, which has the followers, knows the follower, or that one was lost.
UNDECIDED = frozenset(("broker-stalls", "broker-slow"))
OF_FOLLOWERS = frozenset(("produce-latency-slow-follower", "failover-blackout"))
# Without captured Kafka these connections are reported as they are; the whole does not know whether
# they are a broker's.
OF_OTHERS = "broker-refuses-connections"
CONNECTIONS = 2  # drawn of each capture


def found_in(capture: Path) -> list[Finding]:
    """The problems and warnings of a capture, but those of the capture itself."""
    every = kdissect.findings(capture, asks_all=True)
    has_kafka = all(one.id != "no-kafka" for one in every)
    return [
        one for one in every
        if one.severity != NOTICE and one.id not in OF_CAPTURE
        and (has_kafka or one.id != OF_OTHERS)
    ]  # fmt: skip


@cache
def whole(name: str) -> tuple[Finding, ...]:
    """All findings of a committed capture, with the symptoms that others explain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "is_explained", lambda *_: False)
        is_symptom = engine.is_symptom
        patch.setattr(
            engine, "is_symptom",
            lambda one, found: one.id in CAUSES and is_symptom(one, found),
        )  # fmt: skip
        return tuple(kdissect.findings(CAPTURES / name, asks_all=True))


def is_known(finding: Finding, known: Finding) -> bool:
    """Return whether the whole has it, about the same, with the same severity or a higher one."""
    if finding.id != known.id:
        return False
    if SEVERITIES.index(finding.severity) < SEVERITIES.index(known.severity):
        return False
    if any(finding.concerns.get(name) != known.concerns.get(name) for name in ENTITIES):
        return False
    # A name that was not captured is null.
    return all(
        {one for one in finding.concerns.get(name, ()) if one} <= set(known.concerns.get(name, ()))
        for name in LISTS
    )


def new_in(name: str, wanted: Wanted, path: Path) -> list[str]:
    """The sentences that a part of a capture has, and the whole has not."""
    parts_of(name).write(path, wanted)
    return [
        f"{one.id}: {one.text}"
        for one in found_in(path)
        if not any(is_known(one, known) or is_half_known(one, known) for known in whole(name))
    ]


def is_half_known(finding: Finding, known: Finding) -> bool:
    """Return whether the whole knows one of the two causes that a finding leaves open."""
    is_undecided = finding.id in UNDECIDED and finding.severity == WARNING
    return is_undecided and known.id in OF_FOLLOWERS


@cache
def parts_of(name: str) -> Parts:
    return Parts(CAPTURES / name)


def tenths(parts: Parts) -> Iterator[tuple[str, Wanted]]:
    yield "the first tenth", parts.tenth(is_last=False)
    yield "the last tenth", parts.tenth(is_last=True)


def directions(parts: Parts) -> Iterator[tuple[str, Wanted]]:
    yield "to brokers", parts.to_broker
    yield "to clients", parts.to_client


def brokers(parts: Parts) -> Iterator[tuple[str, Wanted]]:
    for broker in sorted(parts.brokers):
        yield f"broker {broker}", parts.of(broker)


def connections(parts: Parts) -> Iterator[tuple[str, Wanted]]:
    """The largest, and some that are drawn."""
    rest = parts.connections[1:]
    drawn = random.Random(SEED).sample(rest, min(CONNECTIONS, len(rest)))
    for connection in [*parts.connections[:1], *drawn]:
        yield f"connection {sorted(connection)} (seed {SEED})", parts.only(connection)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("cuts", [directions, connections, brokers, tenths])
@pytest.mark.parametrize("name", EVERY)
def test_a_part_has_no_problem_that_the_whole_does_not_have(
    name: str, cuts: object, tmp_path: Path
) -> None:
    assert callable(cuts)
    found = {part: new_in(name, wanted, tmp_path / "part.pcapng")
             for part, wanted in cuts(parts_of(name))}  # fmt: skip
    assert not any(found.values()), found
