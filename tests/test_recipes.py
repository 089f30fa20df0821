"""The recipes of CONTRIBUTING.md name files and their content."""

import re
from pathlib import Path

import pytest

from tests.test_house import place_of

ROOT = Path(__file__).parent.parent
RECIPES = (ROOT / "CONTRIBUTING.md").read_text().partition("## Recipes")[2].partition("\n## ")[0]
# A step: the file that its first words link to, and the text up to the next step.
STEP = re.compile(r"^- \[(?P<file>[\w/.]+)\]\((?P=file)\)(?P<text>.*(?:\n  .*)*)", re.M)
IDENTIFIER = re.compile(r"`([A-Za-z_]\w*)`")
STEPS = [(found["file"], found["text"]) for found in STEP.finditer(RECIPES)]


def test_there_is_a_recipe_for_each_of_these() -> None:
    found = re.findall(r"^### (.*)$", RECIPES, re.M)
    assert found == [
        "A column of `exchanges` from a field of a request",
        "A column of `partitions` from a field of a message",
        "A counter by direction, in `connections`", "A column of `batches`", "Another column",
        "An analysis", "A finding", "A link layer", "A Kafka release",
    ]  # fmt: skip
    assert len(STEPS) >= 18


@pytest.mark.parametrize(("file", "text"), STEPS, ids=[file for file, _ in STEPS])
def test_every_recipe_step_names_existing_code(file: str, text: str) -> None:
    content = place_of(ROOT / file).read_text()
    missing = [name for name in IDENTIFIER.findall(text) if not re.search(rf"\b{name}\b", content)]
    assert missing == []
