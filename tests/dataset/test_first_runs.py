"""Of several processes that make the same dataset at the same time, one decides its first run."""

import threading
from pathlib import Path

import pytest

from kdissect.dataset.delta_tables import Conflict, DeltaTables
from kdissect.dataset.run_records import DONE, Record
from kdissect.dataset.runs_table import RunsTable
from kdissect.tables.schemas import TABLES

WRITERS, ROUNDS = 6, 10


def at_once(action: object) -> list[BaseException | None]:
    """What each of several threads that do the same raises."""
    assert callable(action)
    begin, raised = threading.Barrier(WRITERS), list[BaseException | None]()

    def act(number: int) -> None:
        begin.wait()
        try:
            action(number)
        except BaseException as error:
            raised.append(error)
        else:
            raised.append(None)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(WRITERS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return raised


@pytest.mark.parametrize("_", range(ROUNDS))
def test_one_decides(_: int, tmp_path: Path) -> None:
    raised = at_once(
        lambda number: RunsTable(DeltaTables(str(tmp_path))).decide(
            1, [Record(1, number, DONE, "{}")]
        )
    )
    assert raised.count(None) == 1
    assert {type(error) for error in raised if error is not None} == {Conflict}
    table = RunsTable(DeltaTables(str(tmp_path)))
    table.read()
    (record,) = table.records
    assert record.run == 1


@pytest.mark.parametrize("_", range(ROUNDS))
def test_a_table_that_all_complete_is_created_once(_: int, tmp_path: Path) -> None:
    name = next(iter(TABLES))
    raised = at_once(lambda _: DeltaTables(str(tmp_path)).commit(name, 1, (), ()))
    assert raised == [None] * WRITERS
    assert DeltaTables(str(tmp_path)).snapshot(name).version == 0
