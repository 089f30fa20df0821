"""``kdissect spark``: write captures into a dataset, on Spark; see docs/dataset.md."""

from typing import TYPE_CHECKING, Final

import click

from kdissect.cli import options
from kdissect.cli.durations import duration
from kdissect.cli.help import Command, Group
from kdissect.cli.program import ANSWERED, FAILED
from kdissect.cli.repeating import until_signal
from kdissect.cli.spark.options import (
    Place,
    byte_count,
    interrupt,
    into_dataset,
    on_spark,
)
from kdissect.cli.spark.outcome import show, show_batch
from kdissect.cli.spark.rollup import rollup

if TYPE_CHECKING:
    from kdissect.spark.pipeline import Outcome

# As in kdissect.spark, which is imported only when needed.
INTERVAL: Final = "10s"
QUIET: Final = "1m"
MAX_BYTES: Final = "1G"


@click.group(
    "spark",
    cls=Group,
    short_help="Write captures of a whole cluster into a dataset, on Spark.",
    epilog=options.examples(
        "kdissect spark dissect /captures -o /data/kafka",
        "kdissect spark stream /captures -o /data/kafka --checkpoint /data/kafka-checkpoint",
    ),
)
def command() -> None:
    """Dissect the captures of a whole cluster on Spark.

    Needs PySpark and Java, the extras "spark" and "java": docs/spark.md.
    """


@command.command(
    "dissect",
    cls=Command,
    short_help="Write captures into a dataset of Delta tables.",
    epilog=options.examples(
        "kdissect spark dissect /captures -o /data/kafka",
        "kdissect spark dissect '/captures/**/*.pcap*' -o /data/kafka --tap '/(broker-\\d+)/'",
        "kdissect spark dissect /captures -o /data/kafka --master spark://host:7077 "
        "--setting spark.executor.memory=4g",
    ),
)
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURES...")
@into_dataset
@on_spark
@options.JSON_RESULT
def dissect(
    captures: tuple[str, ...],
    dataset: str,
    making: options.Settings,
    place: Place,
    is_json: bool,
) -> int:
    """Write CAPTURES... (files, globs, directories) into a dataset of Delta tables.

    Run it again with more captures, or after a crash: captures in the dataset are not read again,
    nothing is duplicated or lost. A capture that cannot be read is a row of `problems`; a tap that
    cannot be continued is left as it is, and the exit code is 1.
    """
    from kdissect.dataset.storage import absolute
    from kdissect.spark import pipeline

    with place.session() as spark:
        # Executors run in other directories.
        found = pipeline.dissect(spark, map(absolute, captures), dataset, **making)
        return show(found, is_json)


@command.command(
    "stream",
    cls=Command,
    short_help="Write rotating captures into a dataset continuously.",
    epilog=options.examples(
        "kdissect spark stream /captures -o /data/kafka --checkpoint /data/checkpoint",
        "kdissect spark stream '/captures/*' -o /data/kafka --checkpoint /data/c --quiet 5m",
        "kdissect spark stream /captures -o /data/kafka --checkpoint /data/checkpoint "
        "--available-now",
    ),
)
@click.argument("sources", nargs=-1, required=True, metavar="DIR...")
@into_dataset
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Checkpoint directory of Spark; one per stream.",
)
@click.option("--available-now", is_flag=True, help="Process the files complete now, and exit.")
@click.option(
    "--interval",
    "interval_ns",
    callback=duration,
    default=INTERVAL,
    show_default=True,
    metavar="TIME",
    help="Interval between scans for files.",
)
@click.option(
    "--quiet",
    "quiet_ns",
    callback=duration,
    default=QUIET,
    show_default=True,
    metavar="TIME",
    help="The last file of a tap is complete when it has not grown for this long.",
)
@click.option(
    "--max-bytes",
    callback=byte_count,
    default=MAX_BYTES,
    show_default=True,
    metavar="BYTES",
    help="Size limit for the captures of a batch, which has at least one.",
)
@on_spark
@options.JSON_RESULT
def stream(
    sources: tuple[str, ...],
    dataset: str,
    checkpoint: str,
    available_now: bool,
    interval_ns: int,
    quiet_ns: int,
    max_bytes: int,
    making: options.Settings,
    place: Place,
    is_json: bool,
) -> int:
    """Write the captures that appear in DIR... (directories, globs) into a dataset, exactly once.

    A file is read when it is complete: when the next of its tap exists, or it has not grown for a
    while (--quiet). Ctrl-C and SIGTERM stop it after the current batch. Killed at any moment, it
    resumes where it was: nothing is lost or duplicated.
    """
    failed: list[int] = []

    def on_batch(number: int, outcome: "Outcome") -> None:
        show_batch(number, outcome, is_json)
        failed.extend(number for _ in outcome.failed)

    with place.session() as spark, until_signal(interrupt) as stopped:
        from kdissect.spark import (
            streaming,
        )  # needs PySpark, which the session has shown to be there

        streaming.stream(
            spark,
            sources,
            dataset,
            checkpoint,
            available_now=available_now,
            interval_s=interval_ns / 1e9,
            quiet_s=quiet_ns / 1e9,
            max_bytes=max_bytes,
            is_over=stopped.is_set,
            on_batch=on_batch,
            **making,
        )
    return FAILED if failed else ANSWERED


command.add_command(rollup)
