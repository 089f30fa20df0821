"""The versions of PySpark that are tested beside the installed one."""

from pathlib import Path

import pytest

from kdissect.dataset.stored_columns import spark_schema
from kdissect.tables.schemas import TABLES
from tools.spark_versions import TESTS, lowest

ROOT = Path(__file__).resolve().parents[2]


def test_the_lowest_version_is_the_one_that_is_declared() -> None:
    assert lowest() == "3.5"
    assert f"PySpark {lowest()} or newer" in (ROOT / "docs" / "spark.md").read_text("utf-8")
    assert all((ROOT / name).is_file() for name in TESTS)


@pytest.mark.parametrize("table", TABLES)
def test_schemas_in_arrow_do_not_depend_on_the_version_of_spark(table: str) -> None:
    types = pytest.importorskip("pyspark.sql.pandas.types", reason="PySpark is not installed")
    from kdissect.spark.arrow_rows import arrow_schema_of

    schema = types.from_arrow_schema(spark_schema(TABLES[table]))
    assert arrow_schema_of(schema) == types.to_arrow_schema(schema, timezone="UTC")
