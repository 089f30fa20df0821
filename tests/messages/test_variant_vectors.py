"""Messages in layouts that later releases changed in place, as those releases wrote them.

Facts, section 15: the newest layout is tried first, the variant when it does not fit; the value
names the release of the layout.
"""

import re

import pytest

from kdissect import decode, decode_message
from kdissect.messages.redaction import redacted
from kdissect.protocol.apis import APIS
from kdissect.protocol.specs import message_name
from tests.protocol.test_vectors import ALL_VECTORS, Vector, comparable

BODIES = {
    message_name(api.name, side): (api.name, side)
    for api in APIS.values()
    for side in ("request", "response")
}
OF_VARIANTS = [vector for vector in ALL_VECTORS if vector.releases]
LAYOUTS = sorted({(vector.name, vector.releases) for vector in OF_VARIANTS})
# Vectors that fit more than one layout, with the same values in each: their number.
SAME_IN_BOTH = {
    "ConsumerGroupDescribeResponse": 3,
    "ConsumerGroupPartitionMetadataValue": 3,
    "EndQuorumEpochRequest": 5,
    "OffsetCommitRequest": 3,
    "ReadShareGroupStateSummaryResponse": 4,
}
# A list of renewers whose bytes are also a requester: indistinguishable on the wire.
NOT_TOLD = {"DelegationTokenRecord": 1}


def decoded(vector: Vector) -> tuple[str, object]:
    """The releases with a fitting layout, and the values."""
    if vector.name in BODIES:
        api, side = BODIES[vector.name]
        values = decode(api, vector.version, side, vector.raw)
    else:
        values = decode_message(vector.name, vector.version, vector.raw)
    return values.pop("layout_of", ""), comparable(values)


def expected(vector: Vector) -> object:
    name, side = BODIES.get(vector.name, (vector.name, "layout"))
    return comparable(redacted(name, side, vector.values))


def without_sizes(values: object) -> str:
    # The vectors write bytes as hex, so the reported sizes of secrets differ.
    return re.sub(r"<redacted, \d+ bytes>", "<redacted>", repr(values))


def test_there_are_vectors_of_all_forty_variants() -> None:
    assert len(LAYOUTS) == 40


@pytest.mark.parametrize(("name", "releases"), LAYOUTS)
def test_a_message_names_the_release_that_wrote_it(name: str, releases: str) -> None:
    same = not_told = 0
    for vector in OF_VARIANTS:
        if (vector.name, vector.releases) != (name, releases):
            continue
        found, values = decoded(vector)
        is_alike = without_sizes(values) == without_sizes(expected(vector))
        if found == releases:
            assert is_alike
        else:
            same += is_alike
            not_told += not is_alike
    is_first = (name, releases) != ("ConsumerGroupPartitionMetadataValue", "3.5")
    is_2_8 = releases == "2.8"
    assert same == (SAME_IN_BOTH.get(name, 0) if is_first else 0)
    assert not_told == (0 if is_2_8 else NOT_TOLD.get(name, 0))


def test_a_null_that_a_layout_does_not_have_speaks_for_another() -> None:
    # An empty name and a zero id, not flexible; as the flexible layout: null, zero id, no tags.
    of_2_8 = bytes(2 + 16)
    assert decode_message("TopicRecord", 0, of_2_8) == {
        "layout_of": "2.8",
        "name": "",
        "topic_id": "A" * 22,
    }
    assert decode_message("TopicRecord", 0, b"\x02a" + bytes(16) + b"\0") == {
        "name": "a",
        "topic_id": "A" * 22,
    }
