"""Plans of the evidence: the rows of DuckDB, without it, and work that grows with the tables."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import drawn
from kdissect.api.reading import run_over
from kdissect.api.summary_pass import TABLES_OF_RULES
from kdissect.pipeline import Options
from kdissect.rules import planned
from kdissect.rules.compiled_sql import columns_needed, names, plans, reads
from kdissect.rules.executor import gather, shortened
from kdissect.rules.plans import values
from kdissect.rules.plans.columns import Column
from kdissect.rules.plans.evaluator import Plan
from kdissect.rules.plans.stored import KeptRelations
from kdissect.tables.spilled_tables import KeptTables
from tests.seeds import SEED

CAPTURES = Path(__file__).parent.parent.parent / "captures"
EVERY = sorted(CAPTURES.glob("*.pcapng"))
SOURCES = ("groups-4.3.1", "incident-crashes-4.3.1", "retries-4.3.1", "incident-old-clients-4.3.1")


@contextmanager
def kept(capture: Path, limit: int = 1 << 30) -> Iterator[KeptTables]:
    """The tables of a capture, in memory up to a limit."""
    options = Options(tables=TABLES_OF_RULES)
    with KeptTables(columns_needed(), limit) as found:
        with run_over(str(capture), options) as run:
            for table, batch in run:
                found.add(table, batch)
        yield found


def typed(rows: list[Any]) -> list[list[tuple[str, type, Any]]]:
    """Rows in which 1, 1.0 and True are not equal."""
    return [[(name, type(value), value) for name, value in row.items()] for row in rows]


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("capture", EVERY, ids=lambda path: path.stem)
def test_plans_give_the_rows_that_duckdb_gives(capture: Path) -> None:
    roots, nodes = plans()
    with kept(capture) as tables:
        plan = Plan(nodes, KeptRelations(tables).relation)
        found = {name: [shortened(row) for row in plan.rows(roots[name][0])] for name in names()}
        expected, failures = gather(tables.files(), tables.columns, names())
    assert failures == {}
    for name in names():
        assert typed(found[name]) == typed(list(expected[name])), name


def test_rows_in_files_and_in_memory_are_the_same() -> None:
    capture = CAPTURES / "groups-4.3.1.pcapng"
    found = []
    for limit in (0, 20_000, 1 << 30):
        with kept(capture, limit) as tables, planned.evidence(tables, names()) as answers:
            assert (tables.streams is None) == (limit == 1 << 30)
            found.append({name: typed(list(rows)) for name, rows in answers.rows.items()})
    assert found[0] == found[1] == found[2]


def test_values_let_go_after_their_last_read_change_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is read again after it, so nothing is computed twice."""
    made: Counter[str] = Counter()
    of = values.Values.of

    def counted(self: values.Values, number: int) -> Column:
        made[mode] += 1
        return of(self, number)

    found = {}
    with kept(CAPTURES / "incident-crashes-4.3.1.pcapng") as tables:
        for mode, few in (("let go", 0), ("kept", 1 << 30)):
            monkeypatch.setattr(planned, "FEW_ROWS", few)
            with planned.evidence(tables, names()) as answers:
                found[mode] = {name: typed(list(rows)) for name, rows in answers.rows.items()}
        roots, nodes = plans()
        plan = Plan(nodes, KeptRelations(tables).relation)
        expected = reads()
        assert found["let go"] == found["kept"]
        monkeypatch.setattr(values.Values, "of", counted)
        for name in names():
            made.clear()
            for mode in ("kept", "let go"):
                made[mode] = 0
                plan.forget(values.Reads(expected[name]) if mode == "let go" else None)
                for root in roots[name]:
                    plan.columns(root)
                if mode == "let go":
                    assert not plan.values, name
            assert made["let go"] == made["kept"], name


def test_every_plan_is_evaluated_without_rows() -> None:
    roots, nodes = plans()
    plan = Plan(nodes, KeptRelations(KeptTables(columns_needed())).relation)
    for name in names():
        assert list(plan.rows(roots[name][1])) == [], name


def test_the_page_of_a_small_capture_starts_neither_duckdb_nor_pandas() -> None:
    program = (
        "import sys, kdissect.api.summary_pass as summary\n"
        f"found = summary.findings({str(CAPTURES / 'quickstart.pcapng')!r}, asks_all=True)\n"
        "print(len(found) > 3, {'duckdb', 'pandas', 'ibis'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "True set()\n"


@pytest.mark.slow
def test_the_work_of_findings_grows_as_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values computed for all evidence, by a row of the tables, where the capture doubles."""
    recordings = tuple(str(CAPTURES / f"{name}.pcapng") for name in SOURCES)
    parameters = drawn.draw(SEED, "mixed", recordings)._replace(connections=200, loss=0.0)
    made = 0
    of = values.Values.of

    def counted(self: values.Values, number: int) -> Column:
        nonlocal made
        found = of(self, number)
        made += len(found)
        return found

    monkeypatch.setattr(values.Values, "of", counted)
    work = []
    for megabytes in (1, 2, 4):
        capture = tmp_path / f"{megabytes}.pcap"
        drawn.make(parameters, capture, megabytes * 1_000_000)
        with kept(capture) as tables, planned.evidence(tables, names()):
            work.append(made / tables.rows)
        made = 0
    assert max(work) < 2_500, work
    assert work[2] < 1.5 * work[0], work
