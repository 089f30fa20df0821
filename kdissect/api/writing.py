"""Tables of captures as Parquet files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kdissect.capture.files import Source
from kdissect.checkpoint.run_choice import make_run
from kdissect.checkpoint.worker_pool import WorkerPool
from kdissect.dataset.stored_columns import NS, spark_batch, spark_schema
from kdissect.errors import InvalidArgument, not_among
from kdissect.pipeline import Balance, Options
from kdissect.system.confined import PUBLIC, SECRET
from kdissect.tables.batches import ARROW_TYPES
from kdissect.tables.pseudonyms import pseudonyms_for
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES, TEXT
from kdissect.tables.writers import ParquetDirectory

NANOSECONDS: Final = "ns"
MICROSECONDS: Final = "us"
UNITS: Final = (NANOSECONDS, MICROSECONDS)


def write(
    source: Source | Sequence[Source],
    directory: str | Path,
    tables: Sequence[str] | None = None,
    force: bool = False,
    pool: WorkerPool | None = None,
    timestamps: str = NANOSECONDS,
    anonymize: bool | bytes = False,
    **options: Any,
) -> tuple[dict[str, tuple[Path, int]], Balance]:
    """Write tables of captures as ``directory/<table>.parquet``; return their paths and row counts.

    Large files are dissected in several processes (`Options.jobs`); their rows are the same, their
    order need not be. `pool` are those processes, when they were started before
    (`checkpoint.worker_pool`). With `timestamps` "us" times are in microseconds, which every engine
    reads, and columns ``*_ns`` at the end have their nanoseconds. `anonymize` replaces addresses
    and names by pseudonyms, as in `read`. Refuses to overwrite without `force`; raises OutputError
    and leaves no partial output.
    """
    chosen = DEFAULT_TABLES if tables is None else tuple(tables)
    if timestamps not in UNITS:
        raise InvalidArgument(not_among(f"no timestamps in {timestamps!r}", UNITS))
    has_payload = options.get("payload", False)
    pseudonyms = pseudonyms_for(anonymize, chosen, has_payload)
    mode = SECRET if has_payload else PUBLIC
    run = make_run(source, Options(tables=chosen, **options), pool)
    schemas = run.schemas
    if timestamps == MICROSECONDS:
        schemas = {name: in_microseconds(name, schema) for name, schema in schemas.items()}
    with run, ParquetDirectory(Path(directory), schemas, force, mode) as output:
        for name, batch in run:
            if pseudonyms is not None:
                batch = pseudonyms.batch(name, batch)
            moved = timestamps == MICROSECONDS
            output.write(name, spark_batch(batch, schemas[name]) if moved else batch)
    written = {name: (file.path, file.rows) for name, file in output.files.items()}
    return written, run.balance


def in_microseconds(table: str, schema: pa.Schema) -> pa.Schema:
    """The schema of a table whose times are in microseconds; texts stay dictionaries."""
    made = spark_schema(TABLES[table], text=ARROW_TYPES[TEXT])
    names = [name for name in made.names if {name, name.removesuffix(NS)} & set(schema.names)]
    return pa.schema([made.field(name) for name in names])
