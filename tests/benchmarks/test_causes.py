"""The benchmark of causes: its table is sound, its parts of captures are, and it counts right."""

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.causes import vantage
from benchmarks.causes.drawn import SHIFT, drawn
from benchmarks.causes.plan import ALL, INCIDENTS, QUIETS
from benchmarks.causes.score import Said, Score, line, names_cause, score, totals
from benchmarks.causes.shapes import SHAPES, settings_of
from benchmarks.causes.table import DRAWN, HELD_BACK, QUIET, RECORDER, TRAINING, View
from benchmarks.causes.truth import Truth, read_truth
from benchmarks.causes.wanted import WANTED
from kdissect.analysis.error_advice import ADVICE
from kdissect.rules.catalogue import ERROR, KINDS
from tests.seeds import SEED
from tools.record.releases import RELEASES
from tools.record.scenarios import SCENARIOS

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = [name for what in ALL for name, _, _ in what.named_variants()]
VARIANTS = [variant for what in ALL for _, _, variant in what.named_variants()]
LEADER = Truth("a-1", "a", TRAINING, "Broker 2 was killed", ids=["failover-blackout"],
               also=["broker-refuses-connections"], entities=["127.0.0.2"])  # fmt: skip
RIGHT = Said("failover-blackout", "problem", "127.0.0.2:9092 could not be written")
OTHER = Said("failover-blackout", "problem", "127.0.0.3:9092 could not be written")
AFTER = Said("broker-refuses-connections", "warning", "Broker 127.0.0.2:9092 refused 5")
WRONG = Said("metadata-storm", "warning", "a requested metadata 100 times")
PLEASANT = Said("single-record-batches", "notice", "a sent single records")
CUT = Said("capture-loses-packets", "problem", "The capture lacks 3 kB")


def test_there_are_enough_incidents_classes_and_quiet_captures() -> None:
    halves = Counter(half for what in ALL for _, half, _ in what.named_variants())
    assert len(INCIDENTS) >= 30
    assert halves[TRAINING] + halves[HELD_BACK] >= 60
    quiet_views = sum(len(one.views) for what in QUIETS for *_, one in what.named_variants())
    assert halves[QUIET] + quiet_views >= 60
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: str(incident.name))
def test_a_class_is_in_both_halves_and_its_findings_exist(incident: object) -> None:
    assert isinstance(incident, type(INCIDENTS[0]))
    assert {half for _, half, _ in incident.named_variants()} == {TRAINING, HELD_BACK}
    assert incident.ids
    views = [view for variant in incident.variants for view in variant.views]
    named = {*incident.ids, *incident.also, *incident.false}
    named |= {id_ for view in views for id_ in view.ids or ()}
    codes = {id_ for id_ in named if id_.startswith(ERROR)}
    assert {id_.removeprefix(ERROR) for id_ in codes} <= set(ADVICE)
    assert named - codes <= {*KINDS, *WANTED}
    assert not set(incident.false) & {*incident.ids, *incident.also}


def test_each_class_that_is_staged_here_is_drawn_once_by_a_seed() -> None:
    plan = list(drawn(SEED))
    assert plan == list(drawn(SEED))
    every = (*INCIDENTS, *QUIETS)
    staged = [one for one in every if any(each.shape != RECORDER for each in one.variants)]
    assert [what for _, _, what, _ in plan] == staged
    assert len(staged) > 70
    changed = 0
    for name, half, what, variant in plan:
        wanted = DRAWN if what in INCIDENTS else QUIET
        assert (name, half) == (f"{what.name}-{SEED}", wanted)
        alike = [one for one in what.variants if one.shape == variant.shape]
        assert variant.version in {one.version for one in alike}
        assert variant.library in {one.library for one in alike}
        changed += variant._replace(pace=1, length=1) not in what.variants
        views = [each for one in what.variants for each in one.views]
        for view in variant.views:
            assert any(is_near(view, each) for each in views)
    assert changed > len(plan) / 3


def is_near(drawn_view: View, view: View) -> bool:
    """Return whether one is the other, or a part that begins and ends near it."""
    edges = [one.kind.partition("part:")[2].split("-") for one in (drawn_view, view)]
    if edges[0] == [""] or edges[1] == [""]:
        return drawn_view == view
    moved = [abs(float(one) - float(other)) for one, other in zip(*edges, strict=True)]
    return max(moved) <= SHIFT + 0.01 and drawn_view.ids == view.ids


def test_findings_that_rules_have_are_no_longer_wanted() -> None:
    assert not set(WANTED) & set(KINDS)


def test_shapes_releases_views_and_scenarios_exist() -> None:
    for variant in VARIANTS:
        assert variant.version in RELEASES or variant.shape == RECORDER
        assert variant.shape in SHAPES or variant.shape == RECORDER
        assert {view.kind.partition(":")[0] for view in variant.views} <= set(vantage.KINDS)
        assert variant.options.get("scenario", "quickstart") in SCENARIOS
        committed = variant.options.get("capture", "quickstart")
        assert (CAPTURES / f"{committed}.pcapng").exists(), committed


def test_a_cluster_of_an_old_release_has_no_controllers_of_its_own() -> None:
    assert settings_of("2.8.2", "three").layout.controllers == 0
    assert settings_of("4.3.1", "three").layout.controllers == 1


@pytest.mark.parametrize(
    ("page", "rank", "false"),
    [
        ([RIGHT, AFTER], 1, ()),
        ([AFTER, RIGHT], 2, ()),
        ([WRONG, RIGHT], 2, (WRONG,)),
        ([OTHER, AFTER], None, ()),
        ([PLEASANT, RIGHT], 1, ()),
        ([CUT, RIGHT], 1, ()),
        ([], None, ()),
    ],
)
def test_a_page_is_compared_with_the_truth(
    page: list[Said], rank: int | None, false: tuple[Said, ...]
) -> None:
    found = score(Path("a-1.pcapng"), LEADER, page)
    assert (found.rank, found.false) == (rank, false)


def test_a_notice_counts_where_the_truth_lets_it() -> None:
    truth = Truth("b-1", "b", TRAINING, "One at a time", ids=["single-record-batches"],
                  entities=["a"], is_notice=True)  # fmt: skip
    assert score(Path("b.pcapng"), truth, [PLEASANT]).rank == 1
    truth.is_notice = False
    assert score(Path("b.pcapng"), truth, [PLEASANT]).rank is None


@pytest.mark.parametrize(
    ("pressure", "denied", "is_false"),
    [(0.0, [], True), (0.49, [], True), (0.5, [], False), (0.9, ["broker-stalls"], True)],
)
def test_brokers_are_slow_where_the_machine_is_busy(
    pressure: float, denied: list[str], is_false: bool
) -> None:
    truth = Truth("q-1", "q", QUIET, "Nothing", pressure=pressure, false=denied)
    stall = Said("broker-stalls", "problem", "Broker 127.0.0.1:9092 stalled")
    assert score(Path("q.pcapng"), truth, [stall]).false == ((stall,) if is_false else ())
    assert score(Path("q.pcapng"), truth, [WRONG]).false == (WRONG,)


def test_error_codes_may_be_any() -> None:
    truth = Truth("c-1", "c", TRAINING, "", ids=["error-*"])
    assert names_cause(Said("error-UNKNOWN_TOPIC_ID", "problem", ""), truth)
    assert not names_cause(WRONG, truth)


def test_counts_are_those_of_captures() -> None:
    quiet = Truth("quiet-1", "quiet", QUIET, "Nothing")
    scores: list[Score] = [
        score(Path("a"), LEADER, [RIGHT]),
        score(Path("b"), LEADER, [WRONG, RIGHT]),
        score(Path("c"), LEADER, [WRONG, AFTER]),
        score(Path("d"), quiet, [OTHER]),
        score(Path("e"), quiet, [PLEASANT]),
    ]
    assert totals(scores) == (5, 3, 1, 2, 1, 2)
    assert line(scores[0]).startswith("first")
    assert line(scores[3]).startswith("FALSE")


def test_truth_files_round_trip(tmp_path: Path) -> None:
    LEADER.write(tmp_path / "a-1.pcapng")
    assert read_truth(tmp_path / "a-1.pcapng") == LEADER
    assert json.loads((tmp_path / "a-1.truth.json").read_text())["half"] == TRAINING


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    made = tmp_path / "quickstart.pcapng"
    made.write_bytes((CAPTURES / "quickstart.pcapng").read_bytes())
    LEADER.write(made)
    return made


def test_directions_are_the_parts_of_the_whole(capture: Path) -> None:
    names: dict[str, str] = {}
    counts = []
    for kind in ("direction:requests", "direction:responses"):
        made = vantage.derive(capture, View(kind, ids=()), names)
        assert (read_truth(made).ids, read_truth(made).view) == ([], kind)
        counts.append(len(list(vantage.packets_of(made))))
    whole = list(vantage.packets_of(capture))
    assert sum(counts) == len(whole)
    assert min(counts) > 0


def test_the_cause_is_not_false_where_it_need_not_be_seen(capture: Path) -> None:
    part = read_truth(vantage.derive(capture, View("direction:requests", ids=()), {}))
    told = score(Path("a"), part, [RIGHT, WRONG])
    assert (told.rank, [one.id for one in told.false]) == (None, [WRONG.id])


def test_halves_of_the_time_are_the_whole(capture: Path) -> None:
    first = vantage.derive(capture, View("part:0-0.5"), {})
    packets = list(vantage.packets_of(first))
    second = vantage.derive(capture, View("part:0.5-1"), {})
    packets += vantage.packets_of(second)
    assert len(packets) == len(list(vantage.packets_of(capture)))


def test_a_cut_packet_keeps_its_length_and_loses_its_end(capture: Path) -> None:
    made = vantage.derive(capture, View("cut:80"), {})
    payloads = [len(packet.payload) for packet in vantage.packets_of(made)]
    assert max(payloads) <= 80 - 54
    assert len(payloads) == len(list(vantage.packets_of(capture)))


def test_a_client_is_known_by_its_first_request(capture: Path) -> None:
    whole = list(vantage.packets_of(capture))
    made = vantage.derive(capture, View("client:java-"), {})
    own = list(vantage.packets_of(made))
    assert 0 < len(own) < len(whole)
