"""Executors that are lost while they keep parts of a question."""

import json
import subprocess
import sys

import pytest

from tests.spark.conftest import Tables

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("java")
def test_a_question_is_asked_again_when_executors_are_lost_and_not_for_ever(
    tables: Tables,
) -> None:
    # A process of its own: this one may have a session.
    words = [sys.executable, "-m", "tests.spark.on_local_cluster"]
    directory = str(tables.of("retries-4.3.1"))
    done = subprocess.run([*words, directory], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    once, ever = json.loads(done.stdout.splitlines()[-1])
    assert once == {"question": "end-to-end", "error": "", "is_same": True, "attempts": 2}
    assert ever["attempts"] == 3
    says = "Spark: executors that kept parts of the question were lost 3 times: "
    assert ever["error"].startswith(says)
    assert "\n" not in ever["error"]
