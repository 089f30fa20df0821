"""What lacks memory is told apart: more than DuckDB's limit, or more than the system gives."""

import os
import subprocess
import sys

import duckdb
import pytest

from kdissect.errors import NO_MORE_MEMORY
from kdissect.sql.failures import exceeds_limit, lacks_memory, reason_of
from kdissect.sql.memory_limits import MEMORY_VARIABLE

SORTED = "SELECT LIST(i ORDER BY i) FROM range(30_000_000) AS t(i)"
# DuckDB may use more than the system gives.
IN_A_SMALL_SPACE = f"""
import resource, duckdb
from kdissect.sql.failures import exceeds_limit, lacks_memory, reason_of
connection = duckdb.connect(config={{"memory_limit": "60GB", "threads": 1}})
connection.execute("SELECT 1").fetchall()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (150 << 20), resource.RLIM_INFINITY))
try:
    connection.execute({SORTED!r})
except duckdb.Error as error:
    print(lacks_memory(error), exceeds_limit(error), reason_of(error))
"""


def test_a_query_that_exceeds_the_limit_names_the_variable_that_raises_it() -> None:
    with (
        duckdb.connect(config={"memory_limit": "50MB", "threads": 1}) as connection,
        pytest.raises(duckdb.OutOfMemoryException) as raised,
    ):
        connection.execute(SORTED)
    assert lacks_memory(raised.value)
    assert exceeds_limit(raised.value)
    assert MEMORY_VARIABLE in reason_of(raised.value)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/statm and RLIMIT_AS are Linux's")
def test_memory_that_the_system_refuses_does_not_exceed_the_limit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_SMALL_SPACE],
        env=os.environ, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout == f"True False {NO_MORE_MEMORY}\n", done
