"""Generated decodes give what the tree of readers gives, or leave the body to it."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from kdissect.messages import extracted
from kdissect.messages.fast_paths import fast_path_of
from kdissect.messages.field_mapping import INHERITED, kind_of, request_role, response_role
from kdissect.messages.interner import Interner
from kdissect.protocol.generated import FAILED, Read, generate
from kdissect.protocol.plans import Plan, build_projection
from tests.protocol.layouts import Rows
from tests.protocol.projected import by_tree, facts_of
from tests.protocol.test_vectors import Vector, read_vectors, spec_of

VECTORS = [
    vector
    for vector in read_vectors()
    if vector.name.endswith(("Request", "Response")) and not vector.name.startswith("Legacy")
]
SOME_VECTORS = VECTORS[:: len(VECTORS) // 400 + 1]


@cache
def plan_of(vector: tuple[str, int, str]) -> Plan:
    name, version, releases = vector
    role_of = request_role if name.endswith("Request") else response_role
    spec = spec_of(name, releases)
    return build_projection(spec, version, role_of, kind_of, extracted.ROLE_COUNT, INHERITED)


def key_of(vector: Vector) -> tuple[str, int, str]:
    return vector.name, vector.version, vector.releases


@cache
def read_of(vector: tuple[str, int, str], is_short: bool) -> Read:
    return generate(plan_of(vector).reader, fast_path_of if is_short else None)


def check(vector: Vector, data: bytes) -> int:
    """Where the generated decodes end: the rows and facts up to there are those of the tree."""
    key = key_of(vector)
    plan, read, short = plan_of(key), read_of(key, False), read_of(key, True)
    rows, tree_rows = Rows(), Rows()
    assert len(rows.slots) >= plan.slot_count
    end, tree_end = read(data, 1, rows), by_tree(plan, data, tree_rows)
    interner = Interner()
    sink, tree_sink = (
        extracted.FieldSink(interner, {}),
        extracted.FieldSink(interner, {}),
    )
    assert short(data, 1, sink) == end
    by_tree(plan, data, tree_sink)
    if end != FAILED:
        assert (end, rows.rows) == (tree_end, tree_rows.rows)
        assert facts_of(sink) == facts_of(tree_sink)
    return end


def test_every_vector_is_read_as_by_the_tree_and_few_are_left_to_it() -> None:
    left = [vector.name for vector in VECTORS if check(vector, b"\xee" + vector.raw) == FAILED]
    assert len(left) < len(VECTORS) // 2


def test_a_body_that_ends_anywhere_is_left_to_the_tree() -> None:
    for vector in SOME_VECTORS:
        for size in range(0, len(vector.raw), len(vector.raw) // 20 + 1):
            assert check(vector, b"\xee" + vector.raw[:size]) == FAILED, key_of(vector)


@given(st.data())
def test_any_other_bytes_are_read_as_by_the_tree_or_left_to_it(data: st.DataObject) -> None:
    vector = data.draw(st.sampled_from(VECTORS))
    changed = bytearray(b"\xee" + vector.raw)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(vector.raw)))] = data.draw(st.integers(0, 255))
    check(vector, bytes(changed))
