"""Memory of one message is bounded for every layout and every repeated part.

Peaks are those of tracemalloc, with a small limit on the expansion of a message. Without it the
worst messages here take 100 times their size as extracted fields, and 600 times as bodies.
"""

import random

import pytest

from kdissect.messages.body_texts import regular_text
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.extracted import FieldSink
from kdissect.messages.field_mapping import fact_plans
from kdissect.messages.full_bodies import body_json, full_body
from kdissect.messages.interner import Interner
from kdissect.protocol.plans import Plan
from kdissect.protocol.readers import ValueBudget
from tests.exchange_builders import request, response
from tests.hostile_messages import Layout, Shape, hostile_body, layouts, shapes_of
from tests.measuring import peak_memory
from tests.seeds import SEED

KIB = 1 << 10
LIMIT = 32 * KIB
SIZE = 48 * KIB
# Also held: readers, generated functions, names of fields, an interner's texts.
BASE = 64 * KIB
# Facts are cells, which grow to twice as many, objects of as many bytes, and the texts of each.
FACTS = 6
# A body is there as values, as those for JSON twice, and as text; integers of small messages are
# counted with more than they take.
VALUES = 8
# Bytes of a message that are copied: of strings and bytes, and the message cut out of its frame.
COPIES = 6


def plan_of(layout: Layout) -> Plan:
    is_response = layout.side == "response"
    plans = fact_plans()
    if not layout.spec.releases:
        return plans.get(layout.key, layout.version, is_response)
    found = plans.variants(layout.key, layout.version, is_response)
    return next(plan for plan in found if plan.spec is layout.spec)


def check_facts(layout: Layout, shape: Shape, data: bytes) -> None:
    plan = plan_of(layout)
    sink = FieldSink(Interner(size_limit=LIMIT), {}, LIMIT)

    def run() -> None:
        sink.begin()
        assert plan.run(data, 0, sink) == len(data), f"{layout} {shape} seed {SEED}"
        sink.take_partitions()

    run()
    peak = peak_memory(run)
    assert peak < BASE + FACTS * LIMIT + len(data), f"{layout} {shape} seed {SEED}"


def check_body(layout: Layout, shape: Shape, data: bytes) -> None:
    is_response = layout.side == "response"
    make = response if is_response else request
    frame = make(layout.key, layout.version, 1, body=data)[4:]

    def run() -> None:
        body = full_body(layout.key, layout.version, frame, is_response, limit=LIMIT)
        body_json(body, True, ValueBudget(LIMIT))

    def run_straight() -> None:
        regular_text(layout.key, layout.version, frame, is_response, dict, LIMIT, Unpacking())

    for one in (run, run_straight):
        one()
        peak = peak_memory(one)
        assert peak < BASE + VALUES * LIMIT + COPIES * len(data), f"{layout} {shape} seed {SEED}"


def newest() -> list[Layout]:
    """The newest layout of each side of each API."""
    found = {(one.key, one.side): one for one in layouts() if not one.spec.releases}
    return list(found.values())


def check(layout: Layout, shape_count: int) -> None:
    """The layout with so many of its shapes, which are drawn."""
    source = random.Random(f"{SEED} {layout}")
    shapes = list(shapes_of(layout))
    for shape in source.sample(shapes, min(shape_count, len(shapes))):
        data = hostile_body(layout, shape, SIZE, source)
        check_facts(layout, shape, data)
        check_body(layout, shape, data)


def drawn(found: list[Layout], count: int) -> list[Layout]:
    return random.Random(SEED).sample(found, count)


def test_no_array_or_tag_of_drawn_layouts_takes_more_than_the_limit() -> None:
    for layout in drawn(newest(), 4):
        check(layout, 2)


@pytest.mark.slow
def test_nor_of_any_newest_layout() -> None:
    for layout in newest():
        check(layout, 1)


@pytest.mark.slow
def test_nor_of_any_other_layout() -> None:
    for layout in drawn(list(layouts()), 60):
        check(layout, 1)
