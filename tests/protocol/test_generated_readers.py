"""Generated readers give what the tree of readers gives, or leave the body to it."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.errors import DecodeError
from kdissect.messages import extracted, generated_readers
from kdissect.messages.generated_readers import READS
from kdissect.messages.interner import Interner
from kdissect.protocol.apis import find_api
from kdissect.protocol.plans import Plan, read_generated
from kdissect.protocol.readers import FAILED
from tests.protocol.projected import by_tree, facts_of
from tests.protocol.test_generated import VECTORS, plan_of
from tests.protocol.test_vectors import Vector
from tools.write_generated_readers import modules


def read_key(vector: Vector) -> tuple[int, int, int]:
    """The key of READS for a vector."""
    name = vector.name.removesuffix("Request").removesuffix("Response")
    return int(find_api(name).key), int(vector.name.endswith("Response")), vector.version


SOME = [one for one in VECTORS if not one.releases and read_key(one) in READS]


@cache
def plan_with_read(vector: tuple[str, int, str]) -> Plan:
    plan = plan_of(vector)
    key = read_key(Vector("", *vector, b"", {}))
    plan.generated_reader = READS[key](plan.shapes)
    return plan


def check(vector: Vector, data: bytes) -> int:
    """Where the generated reader ends: the facts up to there are those of the tree."""
    plan = plan_with_read((vector.name, vector.version, vector.releases))
    interner = Interner()
    sink, tree_sink = (
        extracted.FieldSink(interner, {}),
        extracted.FieldSink(interner, {}),
    )
    assert plan.generated_reader is not None
    assert len(sink.slots) >= plan.slot_count
    end = int(read_generated(plan.generated_reader, data, 1, sink))
    tree_end = by_tree(plan, data, tree_sink)
    if end != FAILED:
        assert end == tree_end
        assert facts_of(sink) == facts_of(tree_sink)
    return end


@pytest.mark.parametrize("name", modules())
def test_the_written_modules_are_those_that_the_tool_writes(name: str) -> None:
    written = Path(generated_readers.__file__).with_name(f"{name}.py")
    assert written.read_text(encoding="utf-8") == modules()[name]


def test_every_generated_reader_has_a_vector() -> None:
    assert {read_key(vector) for vector in SOME} == set(READS)


def test_every_vector_is_read_as_by_the_tree_and_few_are_left_to_it() -> None:
    left = [vector for vector in SOME if check(vector, b"\xee" + vector.raw) == FAILED]
    assert len(left) < len(SOME) // 4


def test_a_body_that_ends_anywhere_is_left_to_the_tree() -> None:
    for vector in SOME[:: len(SOME) // 200 + 1]:
        for size in range(0, len(vector.raw), len(vector.raw) // 20 + 1):
            assert check(vector, b"\xee" + vector.raw[:size]) == FAILED, vector[:3]


@given(st.data())
def test_any_other_bytes_are_read_as_by_the_tree_or_left_to_it(data: st.DataObject) -> None:
    vector = data.draw(st.sampled_from(SOME))
    changed = bytearray(b"\xee" + vector.raw)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(vector.raw)))] = data.draw(st.integers(0, 255))
    check(vector, bytes(changed))


def test_what_is_left_to_the_tree_is_read_by_it_from_the_start() -> None:
    for vector in SOME[:: len(SOME) // 200 + 1]:
        plan = plan_with_read((vector.name, vector.version, vector.releases))
        data = b"\xee" + vector.raw[:-1]
        interner = Interner()
        sink, tree_sink = (
            extracted.FieldSink(interner, {}),
            extracted.FieldSink(interner, {}),
        )
        sink.takes_fast_paths = True
        with pytest.raises(DecodeError):
            plan.run(data, 1, sink)
        assert by_tree(plan, data, tree_sink) == FAILED
        assert facts_of(sink) == facts_of(tree_sink)
