"""Every analysis runs on the other engine, too."""

from typing import Any

import ibis
import pytest
from ibis.config import Config

from kdissect.analysis.catalogue import QUESTIONS
from kdissect.analysis.engines.ibis_tables import declared_tables


class SparkOptions(Config):
    """SQL as read by Ibis's compiler for Spark, without Spark."""

    treat_nan_as_null: bool = False


ASKED = [(name, {}) for name in QUESTIONS] + [("traffic", {"by": ["window", "client"]})]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "options"), ASKED)
def test_every_question_can_be_said_in_the_sql_of_spark(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ibis.options, "pyspark", SparkOptions())
    answer = QUESTIONS[name].answer(declared_tables(), **options)
    assert str(ibis.to_sql(answer, dialect="pyspark")).startswith(("SELECT", "WITH"))
