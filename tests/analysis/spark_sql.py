"""Expressions as SQL of Spark, without a Spark."""

from typing import Any

import ibis
import pytest
from ibis.config import Config

from kdissect.analysis.declared import declared_tables
from kdissect.analysis.questions import QUESTIONS


class SparkOptions(Config):  # type: ignore[misc]
    """What Ibis registers when pyspark is there."""

    treat_nan_as_null: bool = False


def spark_sql(name: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
    """What Ibis makes of a question for Spark; raises for what Spark has not."""
    monkeypatch.setattr(ibis.options, "pyspark", SparkOptions())
    return str(ibis.to_sql(QUESTIONS[name].answer(declared_tables(), **options), dialect="pyspark"))
