"""Generated code gives the result of the reader tree, or leaves the body to it."""

from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.errors import DecodeError
from kdissect.messages.declared_roles import ROLE_COUNT
from kdissect.messages.extracted import FieldSink
from kdissect.messages.field_mapping import INHERITED, kind_of, request_role, response_role
from kdissect.messages.generated_code import (
    CompiledReads,
    compiled_read,
    compiled_reads,
    interpreted_read,
    is_interpreted,
)
from kdissect.messages.interner import Interner
from kdissect.messages.readers_source import module_source
from kdissect.protocol.plans import GeneratedOf, GeneratedRead, Plan, build_projection
from kdissect.protocol.plans import read_generated as ended
from kdissect.protocol.readers import FAILED
from tests.protocol.layouts import Rows
from tests.protocol.projected import by_tree, facts_of
from tests.protocol.test_vectors import ALL_VECTORS, Vector, spec_of


def source_reads() -> CompiledReads:
    """The readers of the source that is compiled, as it is."""
    names: dict[str, object] = {}
    exec(compile(module_source(), "<generated_readers>", "exec"), names)  # noqa: S102  # our own
    return cast(CompiledReads, names["READS"])


READS = compiled_reads() or source_reads()
VECTORS = [
    vector
    for vector in ALL_VECTORS
    if vector.name.endswith(("Request", "Response")) and not vector.name.startswith("Legacy")
]
COMPILED_VECTORS = [one for one in VECTORS if not one.releases and (one.name, one.version) in READS]
Key = tuple[str, int, str]


def key_of(vector: Vector) -> Key:
    return vector.name, vector.version, vector.releases


@cache
def plan_of(key: Key) -> Plan:
    name, version, releases = key
    role_of = request_role if name.endswith("Request") else response_role
    spec = spec_of(name, releases)
    return build_projection(spec, version, role_of, kind_of, ROLE_COUNT, INHERITED)


@cache
def interpreted(key: Key) -> tuple[GeneratedRead, GeneratedRead]:
    plan = plan_of(key)
    return interpreted_read(plan), interpreted_read(plan, has_fast_paths=False)


@cache
def compiled(key: Key) -> GeneratedRead:
    made = compiled_read(READS, plan_of(key))
    assert made is not None
    return made


def new_sinks() -> tuple[FieldSink, FieldSink]:
    interner = Interner()
    return FieldSink(interner, {}), FieldSink(interner, {})


def check_facts(read: GeneratedRead, vector: Vector, data: bytes) -> int:
    """End of a generated read: the fields up to there equal those of the tree."""
    plan = plan_of(key_of(vector))
    sink, tree_sink = new_sinks()
    assert len(sink.slots) >= plan.slot_count
    end, tree_end = int(ended(read, data, 1, sink)), by_tree(plan, data, tree_sink)
    if end != FAILED:
        assert end == tree_end
        assert facts_of(sink) == facts_of(tree_sink)
    return end


def check_interpreted(vector: Vector, data: bytes) -> int:
    """End of interpreted code, for any sink and for that of fields."""
    read, long_read = interpreted(key_of(vector))
    plan = plan_of(key_of(vector))
    rows, tree_rows = Rows(), Rows()
    assert len(rows.slots) >= plan.slot_count
    end, tree_end = int(ended(long_read, data, 1, rows)), by_tree(plan, data, tree_rows)
    if end != FAILED:
        assert (end, rows.rows) == (tree_end, tree_rows.rows)
    assert check_facts(read, vector, data) == end
    return end


def check_compiled(vector: Vector, data: bytes) -> int:
    return check_facts(compiled(key_of(vector)), vector, data)


Check = Callable[[Vector, bytes], int]
PLAIN = pytest.mark.skipif(not is_interpreted(), reason="compiled classes have no such subclasses")
BUILDS = pytest.mark.parametrize(
    ("check", "vectors"),
    [
        pytest.param(check_interpreted, VECTORS, marks=PLAIN, id="interpreted"),
        pytest.param(check_compiled, COMPILED_VECTORS, id="compiled"),
    ],
)


@BUILDS
def test_every_vector_is_read_as_by_the_tree_and_none_is_left_to_it(
    check: Check, vectors: list[Vector]
) -> None:
    left = [key_of(one) for one in vectors if check(one, b"\xee" + one.raw) == FAILED]
    assert left == []


@BUILDS
def test_a_body_that_ends_anywhere_is_left_to_the_tree(check: Check, vectors: list[Vector]) -> None:
    for vector in vectors[:: len(vectors) // 200 + 1]:
        for size in range(0, len(vector.raw), len(vector.raw) // 20 + 1):
            assert check(vector, b"\xee" + vector.raw[:size]) == FAILED, key_of(vector)


@BUILDS
@given(data=st.data())
def test_any_other_bytes_are_read_as_by_the_tree_or_left_to_it(
    check: Check, vectors: list[Vector], data: st.DataObject
) -> None:
    vector = data.draw(st.sampled_from(vectors))
    changed = bytearray(b"\xee" + vector.raw)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(vector.raw)))] = data.draw(st.integers(0, 255))
    check(vector, bytes(changed))


@pytest.mark.parametrize(
    "generated_of",
    [pytest.param(interpreted_read, marks=PLAIN), partial(compiled_read, READS)],
)
def test_fallback_to_the_tree_reads_from_the_start(generated_of: GeneratedOf) -> None:
    for vector in COMPILED_VECTORS[:: len(COMPILED_VECTORS) // 100 + 1]:
        plan = plan_of(key_of(vector))
        data = b"\xee" + vector.raw[:-1]
        sink, tree_sink = new_sinks()
        sink.takes_fast_paths = True
        plan.generated_of = generated_of
        with pytest.raises(DecodeError):
            plan.run(data, 1, sink)
        assert plan.generated is not None
        assert by_tree(plan, data, tree_sink) == FAILED
        assert facts_of(sink) == facts_of(tree_sink)


def test_every_compiled_reader_has_a_vector() -> None:
    assert {(vector.name, vector.version) for vector in COMPILED_VECTORS} == set(READS)


def test_of_several_layouts_under_a_version_none_is_compiled() -> None:
    variants = [vector for vector in VECTORS if vector.releases]
    assert [one for one in variants if compiled_read(READS, plan_of(key_of(one)))] == []


def test_the_generated_module_is_only_in_a_compiled_build() -> None:
    found = find_spec("kdissect.messages.generated_readers")
    assert (found is None) is is_interpreted()
    assert not Path(kdissect.__path__[0], "messages", "generated_readers.py").exists()
