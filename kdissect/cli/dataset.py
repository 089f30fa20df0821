"""``kdissect dataset``: fill and maintain a dataset, without Spark; see docs/dataset.md."""

from dataclasses import asdict
from datetime import date
from typing import Final

import click

from kdissect.cli import options
from kdissect.cli.documents import print_document
from kdissect.cli.durations import duration
from kdissect.cli.help import Command, Group
from kdissect.cli.program import ANSWERED, FAILED
from kdissect.cli.spark.options import byte_count
from kdissect.text import human
from kdissect.text.escape import escaped

WEEK: Final = "7d"
TARGET: Final = "128M"


def day(_: click.Context, __: click.Parameter, text: str | None) -> date | None:
    """Read a day (a click callback)."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no day; write it like 2026-08-01") from None


@click.group(
    "dataset",
    cls=Group,
    short_help="Maintain a dataset: check, compact, delete a client's rows.",
    epilog=options.examples(
        "kdissect dataset check /data/kafka",
        "kdissect dataset ingest /captures/live -o /data/kafka --name broker-1",
        "kdissect dataset compact /data/kafka",
        "kdissect dataset expire /data/kafka --older-than 30d --dry-run",
        "kdissect dataset forget /data/kafka --client billing --dry-run",
    ),
)
def command() -> None:
    """Bring live captures into a dataset, and maintain what `kdissect spark` has written.

    Needs no Spark, but the extra "datasets": docs/dataset.md.
    """


@command.command(
    "check",
    cls=Command,
    short_help="Check that all files of a dataset are there and sound.",
    epilog=options.examples("kdissect dataset check /data/kafka"),
)
@click.argument("dataset", metavar="DATASET")
@options.JSON_RESULT
def check(dataset: str, is_json: bool) -> int:
    """Check that all files of DATASET are there, with the size and rows of its logs.

    It reads the ends of all files, changes nothing, and may run at any time. The exit code is 1 if
    anything is wrong.
    """
    from kdissect.dataset.maintenance import check as checked

    found = checked(dataset)
    if is_json:
        print_document(found._asdict())
    else:
        for line in found.wrong:
            click.echo(escaped(line))
        click.echo(
            f"{human.counted(found.files, 'file')} of {human.size(found.size)}, "
            f"{human.counted(found.rows, 'row')}, {len(found.wrong)} wrong"
        )
    return FAILED if found.wrong else ANSWERED


@command.command(
    "expire",
    cls=Command,
    short_help="Remove files that no recent version of a dataset needs.",
    epilog=options.examples(
        "kdissect dataset expire /data/kafka --dry-run",
        "kdissect dataset expire /data/kafka --older-than 30d",
        "kdissect dataset expire /data/kafka --rows-before 2026-08-01",
    ),
)
@click.argument("dataset", metavar="DATASET")
@click.option(
    "--older-than",
    "age_ns",
    callback=duration,
    default=WEEK,
    show_default=True,
    metavar="TIME",
    help="Keep what versions since then need; an hour at least.",
)
@click.option(
    "--rows-before",
    callback=day,
    metavar="DATE",
    help="Drop the rows of all days before this one, like 2026-08-01, too.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@options.JSON_RESULT
def expire(
    dataset: str, age_ns: int, rows_before: date | None, dry_run: bool, is_json: bool
) -> int:
    """Remove files of DATASET that runs have replaced, or that killed runs have left.

    Earlier versions of its tables cannot be read afterwards, nor what was opened before. Files of
    rows that are dropped are removed by a later `expire`, when no recent version needs them.
    """
    from kdissect.dataset.maintenance import expire as expired
    from kdissect.dataset.retention import Dropped, drop_days

    dropped = Dropped(0, 0)
    if rows_before is not None:
        dropped = drop_days(dataset, rows_before, dry_run=dry_run)
    found = expired(dataset, age_ns / 1e9, dry_run=dry_run)
    if is_json:
        gone = {"dropped_rows": dropped.rows, "dropped_files": dropped.files}
        print_document({**found._asdict(), **gone, "dry_run": dry_run})
        return ANSWERED
    done = "would be removed" if dry_run else "removed"
    if rows_before is not None:
        verb = "would be dropped" if dry_run else "dropped"
        click.echo(f"{human.counted(dropped.rows, 'row')} before {rows_before} {verb}")
    click.echo(f"{human.counted(found.files, 'file')} of {human.size(found.size)} {done}")
    return ANSWERED


@command.command(
    "ingest",
    cls=Command,
    short_help="Bring directories of live captures into a dataset.",
    epilog=options.examples(
        "kdissect dataset ingest /captures/live -o /data/kafka --name broker-1",
        "kdissect dataset ingest /mnt/broker-*/live -o /data/kafka --tap 'broker-[0-9]+'",
    ),
)
@click.argument("directories", metavar="LIVE_DIR...", nargs=-1, required=True)
@click.option("-o", "--output", "dataset", required=True, metavar="DATASET", help="The dataset.")
@click.option("--name", metavar="NAME", help="Name of the tap; default: that of its directory.")
@click.option(
    "--tap",
    metavar="PATTERN",
    help="Regular expression that finds the name of the tap in the path of a directory.",
)
@options.JSON_RESULT
def ingest(
    directories: tuple[str, ...], dataset: str, name: str | None, tap: str | None, is_json: bool
) -> int:
    """Bring what `kdissect live -o LIVE_DIR` has written into DATASET: each rotation once.

    Call it again when there are more rotations; also while the capture goes on. Needs no Spark.
    """
    from kdissect.dataset.live_rotations import ingest as ingested

    found = ingested(directories, dataset, name=name, tap=tap)
    if is_json:
        print_document(asdict(found))
        return ANSWERED
    click.echo(
        f"{human.counted(found.rotations, 'rotation')} of {human.size(found.size)}, "
        f"{human.counted(found.rows, 'row')}, {human.counted(found.taps, 'tap')}"
    )
    return ANSWERED


@command.command(
    "compact",
    cls=Command,
    short_help="Merge small files of a dataset into few.",
    epilog=options.examples(
        "kdissect dataset compact /data/kafka --dry-run",
        "kdissect dataset compact /data/kafka --target-size 256M",
    ),
)
@click.argument("dataset", metavar="DATASET")
@click.option(
    "--target-size",
    callback=byte_count,
    default=TARGET,
    show_default=True,
    metavar="BYTES",
    help="Merge files smaller than this, into files of about this size.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be merged.")
@options.JSON_RESULT
def compact(dataset: str, target_size: int, dry_run: bool, is_json: bool) -> int:
    """Merge small files of DATASET, of one table, day and tap, with the same rows.

    It may run while others write to the dataset. The small files are removed by `expire`.
    """
    from kdissect.dataset.compaction import compact as compacted

    found = compacted(dataset, target_size, dry_run=dry_run)
    if is_json:
        print_document({**asdict(found), "dry_run": dry_run})
        return ANSWERED
    done = "would become" if dry_run else "became"
    click.echo(
        f"{human.counted(found.files, 'file')} of {human.size(found.size)} {done} {found.made}"
    )
    return ANSWERED


@command.command(
    "forget",
    cls=Command,
    short_help="Delete the rows of a client or a principal.",
    epilog=options.examples(
        "kdissect dataset forget /data/kafka --client billing --dry-run",
        "kdissect dataset forget /data/kafka --principal alice",
    ),
)
@click.argument("dataset", metavar="DATASET")
@click.option("--client", metavar="ID", help="A client id.")
@click.option("--principal", metavar="USER", help="A SASL user.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@options.JSON_RESULT
def forget(
    dataset: str, client: str | None, principal: str | None, dry_run: bool, is_json: bool
) -> int:
    """Delete the rows of a client or a principal from all tables of DATASET, and their bytes.

    With them go all files that earlier versions of its tables need. Taps whose open connections
    are of it begin anew with their next capture.
    """
    from kdissect.dataset.deletion import forget as forgotten

    found = forgotten(dataset, client=client, principal=principal, dry_run=dry_run)
    if is_json:
        print_document({**found._asdict(), "dry_run": dry_run})
        return ANSWERED
    done = "would be" if dry_run else "were"
    click.echo(
        f"{human.counted(found.rows, 'row')} in {human.counted(found.files, 'file')} {done} "
        f"deleted, {human.counted(found.taps, 'tap')} {done} begun anew"
    )
    if not dry_run:
        click.echo(f"{human.counted(found.removed, 'file')} of {human.size(found.size)} removed")
    return ANSWERED
