"""``kdissect dataset``: maintain a dataset, without Spark; see docs/dataset.md."""

from typing import Final

import click

from kdissect.cli import options
from kdissect.cli.documents import print_document
from kdissect.cli.durations import duration
from kdissect.cli.help import Command, Group
from kdissect.cli.program import ANSWERED, FAILED
from kdissect.text import human
from kdissect.text.escape import escaped

WEEK: Final = "7d"


@click.group(
    "dataset",
    cls=Group,
    short_help="Maintain a dataset: check it, remove old versions.",
    epilog=options.examples(
        "kdissect dataset check /data/kafka",
        "kdissect dataset expire /data/kafka --older-than 30d --dry-run",
    ),
)
def command() -> None:
    """Maintain a dataset that `kdissect spark` has written.

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
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@options.JSON_RESULT
def expire(dataset: str, age_ns: int, dry_run: bool, is_json: bool) -> int:
    """Remove files of DATASET that runs have replaced, or that killed runs have left.

    Earlier versions of its tables cannot be read afterwards, nor what was opened before.
    """
    from kdissect.dataset.maintenance import expire as expired

    found = expired(dataset, age_ns / 1e9, dry_run=dry_run)
    if is_json:
        print_document({**found._asdict(), "dry_run": dry_run})
        return ANSWERED
    done = "would be removed" if dry_run else "removed"
    click.echo(f"{human.counted(found.files, 'file')} of {human.size(found.size)} {done}")
    return ANSWERED
