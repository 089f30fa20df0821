"""``kdissect spark rollup DATASET``: make the rollups that answer queries over long ranges."""

import click

from kdissect.cli import options
from kdissect.cli.documents import print_document
from kdissect.cli.help import Command
from kdissect.cli.program import ANSWERED
from kdissect.cli.spark.options import Place, on_spark
from kdissect.text import human


@click.command(
    "rollup",
    cls=Command,
    short_help="Make the missing rollups of a dataset.",
    epilog=options.examples(
        "kdissect spark rollup /data/kafka",
        "kdissect latency /data/kafka --rollups --by api,window --window 1h",
    ),
)
@click.argument("dataset", metavar="DATASET")
@click.option("--here", is_flag=True, help="Run in this process, without Spark.")
@options.JSON_RESULT
@on_spark
def rollup(dataset: str, here: bool, is_json: bool, place: Place) -> int:
    """Make the missing rollups of DATASET, and remove those of deleted files.

    May run at any time, also while captures are being added. Docs: rollups.md.
    """
    from kdissect.spark.rollups import roll_up

    if here:
        done = roll_up(dataset)
    else:
        with place.session() as spark:
            done = roll_up(dataset, spark)
    if is_json:
        print_document(done._asdict())
        return ANSWERED
    click.echo(
        f"{human.counted(done.made, 'rollup')} made, {done.removed} removed; "
        f"{human.counted(done.files, 'rollup')} of {human.size(done.size)}"
    )
    return ANSWERED
