"""docs/first-five-minutes.md; `tools.installed` takes its steps with the wheel that was built."""

import re
from pathlib import Path

from tools.first_minutes import INSTALLING, MARK, PAGE, STEP, STEPS, differences


def test_the_page_has_the_steps_of_the_program_and_their_exit_codes() -> None:
    found = [(command, int(code or 0)) for command, code in STEP.findall(PAGE.read_text())]
    assert found == [(step.command, step.code) for step in (*INSTALLING, *STEPS)]


def test_the_page_names_no_directory_of_the_machine_that_printed_it() -> None:
    printed = PAGE.read_text().partition(MARK)[2]
    assert re.findall(r"/(?:tmp|root|home|work|usr)/\S*", printed) == []


def test_a_program_that_prints_something_else_is_found(tmp_path: Path) -> None:
    program = tmp_path / "kdissect"
    program.write_text("#!/bin/sh\necho 0\n")
    program.chmod(0o755)
    assert len(differences(tmp_path, tmp_path / "place")) == len(STEPS)
