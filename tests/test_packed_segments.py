from hypothesis import example, given
from hypothesis import strategies as st

from kdissect.checkpoint.codec import fields_of
from kdissect.checkpoint.packed_segments import FIELDS, packed_segments, unpacked_segments
from kdissect.packets.segment import Segment

NUMBERS = st.integers(-(1 << 62), (1 << 62) - 1)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    data = draw(st.binary(max_size=40))
    header, start, end = sorted(draw(st.integers(0, len(data))) for _ in range(3))
    made = Segment(
        *[0] * 4, draw(st.sampled_from((bytes(12), bytes(36)))), *[0] * 4, data, *[0] * 5
    )
    made.header, made.start, made.end = header, start, end
    for name in ("number", "ordinal", "capture", "time_ns", "sequence", "acknowledgment", "flags",
                 "window", "payload_length", "ip_id", "addresses", "ports"):  # fmt: skip
        setattr(made, name, draw(NUMBERS))
    return made


def values(segment: Segment) -> list[object]:
    return [getattr(segment, name) for name in fields_of(Segment)]


@given(st.lists(segments(), max_size=5))
def test_segments_are_the_same_after_a_journey(given_segments: list[Segment]) -> None:
    again = unpacked_segments(*packed_segments(given_segments))
    assert [values(one) for one in again] == [values(one) for one in given_segments]


def numbers_of(**fields: int) -> bytes:
    """The numbers of one segment, some of them given, by their position."""
    values = [fields.get(f"at_{place}", 0) for place in range(FIELDS)]
    return b"".join(value.to_bytes(8, "little", signed=True) for value in values)


@given(st.binary(max_size=3 * FIELDS * 8), st.binary(max_size=60))
@example(numbers_of(at_13=1 << 62, at_14=1 << 62), b"")
@example(numbers_of(at_13=-1), b"")
@example(numbers_of(at_14=2, at_8=2, at_9=1), b"ab")
@example(numbers_of(at_11=-5), b"")
@example(numbers_of(), b"more")
def test_any_bytes_are_segments_or_a_value_error(numbers: bytes, contents: bytes) -> None:
    try:
        made = unpacked_segments(numbers, contents)
    except ValueError:
        return
    assert packed_segments(made) == (numbers, contents)
