"""The evidence that docs/protocol.md shows is that of the vectors and captures in the tree."""

import hashlib
import re

import pytest

from kdissect.messages.generated_code import is_interpreted
from kdissect.protocol.apis import APIS
from tools.coverage_protocol import (
    BODIES,
    Layout,
    captures,
    layouts_in,
    proofs,
    read_spoken,
    summary,
)


def test_the_evidence_is_of_the_captures_in_the_tree() -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in captures()}
    known = {name: entry["sha256"] for name, entry in read_spoken().items()}
    assert known == found, "run make coverage-protocol docs"


@pytest.mark.skipif(
    not is_interpreted(), reason="what opens embedded messages cannot be replaced when compiled"
)
def test_evidence_of_a_capture_lists_its_layouts() -> None:
    path = next(path for path in captures() if path.name == "quickstart.pcapng")
    spoken = read_spoken()[path.name]["layouts"]
    assert sorted(str(layout) for layout in layouts_in(path)) == spoken


def test_every_layout_that_is_spoken_is_one_of_the_schema() -> None:
    known = {str(layout) for layout in proofs()}
    for entry in read_spoken().values():
        assert set(entry["layouts"]) <= known


def test_no_layout_is_proved_by_neither_vector_nor_capture() -> None:
    assert [
        layout for layout, proof in proofs().items() if not proof.writers | {*proof.captures}
    ] == []
    assert sum(summary()[BODIES].values()) == 736


def test_both_bodies_of_every_version_are_among_the_layouts() -> None:
    bodies = {layout for layout, proof in proofs().items() if proof.kind == BODIES}
    assert bodies == {
        Layout(api.name + side, version)
        for api in APIS.values()
        for version in range(api.lowest, api.highest + 1)
        for side in ("Request", "Response")
    }


def test_releases_that_are_shown_are_numbers() -> None:
    for api in APIS.values():
        for release in api.definition().releases.values():
            assert re.fullmatch(r"[0-9.]+(-[a-z0-9]+)?", release.first)
