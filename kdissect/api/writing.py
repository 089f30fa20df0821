"""Tables of captures as Parquet files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kdissect.capture.files import Source
from kdissect.checkpoint.run_choice import make_run
from kdissect.checkpoint.worker_pool import WorkerPool
from kdissect.pipeline import Balance, Options
from kdissect.system.confined import PUBLIC, SECRET
from kdissect.tables.schemas import DEFAULT_TABLES
from kdissect.tables.writers import ParquetDirectory


def write(
    source: Source | Sequence[Source],
    directory: str | Path,
    tables: Sequence[str] | None = None,
    force: bool = False,
    pool: WorkerPool | None = None,
    **options: Any,
) -> tuple[dict[str, tuple[Path, int]], Balance]:
    """Write tables of captures as ``directory/<table>.parquet``; return their paths and row counts.

    Large files are dissected in several processes (`Options.jobs`); their rows are the same, their
    order need not be. `pool` are those processes, when they were started before
    (`checkpoint.worker_pool`). Refuses to overwrite without `force`; raises OutputError and leaves
    no partial output.
    """
    chosen = DEFAULT_TABLES if tables is None else tuple(tables)
    mode = SECRET if options.get("payload") else PUBLIC
    run = make_run(source, Options(tables=chosen, **options), pool)
    with run, ParquetDirectory(Path(directory), run.schemas, force, mode) as output:
        for name, batch in run:
            output.write(name, batch)
    written = {name: (file.path, file.rows) for name, file in output.files.items()}
    return written, run.balance
