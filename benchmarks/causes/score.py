"""Scores captures against their truth: is the cause named first, or third, and is all true?"""

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.causes.table import OF_THE_CAPTURE, QUIET
from benchmarks.causes.truth import Truth, place_of, read_truth
from kdissect.rules.finding import NOTICE, PROBLEM, WARNING, Finding

ALWAYS = ("healthy", "latencies")
FEW = 3
# Where programs wait for a CPU most of the time, brokers are slow or stall, too.
BUSY = 0.5  # share of the capture's time
OF_BUSY_MACHINES = ("broker-slow", "broker-stalls", "produce-latency-slow-follower")


class Said(NamedTuple):
    """A finding of the page."""

    id: str
    severity: str
    text: str


class Score(NamedTuple):
    """Score of a capture's page: `rank` is the place of its cause, from 1; None when it is missing.

    `false` are problems and warnings that are not part of the truth.
    """

    capture: Path
    truth: Truth
    page: tuple[Said, ...]
    rank: int | None
    false: tuple[Said, ...]

    @property
    def has_cause(self) -> bool:
        """Return whether the capture shows an incident's cause."""
        return bool(self.truth.ids)

    @property
    def is_right(self) -> bool:
        """Do nothing for the rules."""
        return (self.rank == 1 or not self.has_cause) and not self.false


def page_of(capture: Path) -> list[Said]:
    """The findings of the default page."""
    import kdissect
    from kdissect.rules.engine import few

    found: Sequence[Finding] = few(kdissect.findings(str(capture)))
    return [Said(one.id, one.severity, one.text) for one in found]


def score(capture: Path, truth: Truth, page: Iterable[Said]) -> Score:
    """Compare a page with the truth.

    A notice counts for the rank only where the truth lets a notice name the cause. Findings about
    the capture itself (lost, cut, encrypted) are neither a cause nor false. Nor is it false that
    brokers were slow where the machine was busy while they were captured.
    """
    told = tuple(one for one in page if one.id not in ALWAYS)
    of_traffic = [one for one in told if one.id not in OF_THE_CAPTURE or one.id in truth.ids]
    ranked = [one for one in of_traffic if one.severity != NOTICE or truth.is_notice]
    rank = next((place for place, one in enumerate(ranked, 1) if names_cause(one, truth)), None)
    of_machine = OF_BUSY_MACHINES if truth.pressure >= BUSY else ()
    expected = {*truth.ids, *truth.also, *of_machine} - set(truth.false)
    false = tuple(
        one for one in of_traffic
        if one.severity != NOTICE and not any(is_kind(one.id, id_) for id_ in expected)
    )  # fmt: skip
    return Score(capture, truth, told, rank, false)


def names_cause(one: Said, truth: Truth) -> bool:
    """Return whether a finding is the cause's, with all of its names."""
    is_id = any(is_kind(one.id, id_) for id_ in truth.ids)
    return is_id and all(entity in one.text for entity in truth.entities)


def is_kind(id_: str, wanted: str) -> bool:
    """Return whether an id is the wanted one; error-* matches all codes."""
    return re.fullmatch(re.escape(wanted).replace(r"\*", ".*"), id_) is not None


def score_file(capture: Path) -> Score:
    """Score one capture that lies beside its truth."""
    return score(capture, read_truth(capture), page_of(capture))


def captures_in(directory: Path) -> list[Path]:
    """Captures with a truth, in a directory and those in it."""
    files = (file for file in directory.rglob("*.pcap*") if place_of(file).exists())
    return sorted(files)


def score_all(captures: Sequence[Path], jobs: int = 1) -> list[Score]:
    """Score captures, in some processes."""
    if jobs == 1:
        return [score_file(capture) for capture in captures]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(score_file, captures))


class Totals(NamedTuple):
    """Totals of one half."""

    captures: int
    with_cause: int
    first: int
    in_three: int
    false_problems: int  # captures with one
    false_warnings: int


def totals(scores: Sequence[Score]) -> Totals:
    """Count."""
    caused = [one for one in scores if one.has_cause]
    return Totals(
        len(scores),
        len(caused),
        sum(one.rank == 1 for one in caused),
        sum(one.rank is not None and one.rank <= FEW for one in caused),
        sum(any(said.severity == PROBLEM for said in one.false) for one in scores),
        sum(any(said.severity == WARNING for said in one.false) for one in scores),
    )


def line(one: Score) -> str:
    """A capture's line: its score, first finding and truth."""
    said = next((each.text for each in one.page), "(nothing)")
    if one.truth.half == QUIET or not one.has_cause:
        mark = "ok" if not one.false else "FALSE"
    else:
        mark = {None: "MISSING", 1: "first"}.get(one.rank, f"place {one.rank}")
    false = f"\n      false: {'; '.join(f'{f.id} ({f.severity})' for f in one.false)}"
    return (
        f"{mark:8} {one.truth.name}\n      says:  {said}\n      truth: {one.truth.cause} "
        f"[{', '.join(one.truth.ids)}; {', '.join(one.truth.entities)}]"
        + (false if one.false else "")
    )


def shown(one: Score) -> str:
    """A capture's findings beside its truth."""
    truth = one.truth
    lines = [f"{truth.name} (Kafka {truth.kafka}, {truth.shape}, {truth.library})"]
    lines += [f"  truth    {truth.cause}"]
    if truth.ids:
        lines += [f"           {' or '.join(truth.ids)}, with {', '.join(truth.entities) or '-'}"]
    if truth.also:
        lines += [f"           also true: {', '.join(truth.also)}"]
    lines += [f"           cause at place {one.rank}"] if truth.ids else []
    for said in one.page:
        is_false = said in one.false
        lines += [f"  {said.severity:8} {said.id}{' FALSE' if is_false else ''}: {said.text}"]
    return "\n".join(lines)
