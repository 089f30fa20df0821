"""``kdissect spark``: captures into a dataset, on Spark; see docs/dataset.md."""

import click

from kdissect.cli import options
from kdissect.cli.spark_options import Place, into_dataset, on_spark
from kdissect.cli.spark_outcome import show

JSON = click.option("--json", "is_json", is_flag=True, help="Say as a line of JSON what was done.")


@click.group(
    "spark",
    short_help="Captures of a whole cluster into a dataset, on Spark.",
    epilog=options.examples(
        "kdissect spark dissect /captures -o /data/kafka",
        "kdissect spark dissect --master spark://host:7077 '/captures/*/ring.pcap*' -o /data/kafka",
    ),
)
def command() -> None:
    """Dissect the captures of a whole cluster on Spark.

    Needs PySpark and Java: pip install "kdissect[spark]", docs/spark.md.
    """


@command.command(
    "dissect",
    short_help="Bring captures into a dataset of Parquet files.",
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
@JSON
def dissect(
    captures: tuple[str, ...],
    dataset: str,
    making: options.Settings,
    place: Place,
    is_json: bool,
) -> int:
    """Bring CAPTURES... (files, globs, directories) into a dataset: Parquet files and a manifest.

    Do it again with more captures, or after a crash: what is in is not read again, nothing is
    there twice and nothing is lost. A capture that cannot be read is a row of `problems`; a tap
    that cannot be gone on with is left as it is, and the exit code is 2.
    """
    from kdissect.spark import pipeline

    with place.session() as spark:
        return show(pipeline.dissect(spark, captures, dataset, **making), is_json)
