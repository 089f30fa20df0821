"""Every question can be put to the other engine, too."""

import ibis
import pytest
from ibis.config import Config

from kdissect.analysis.declared import declared_tables
from kdissect.analysis.questions import QUESTIONS


class SparkOptions(Config):  # type: ignore[misc]
    """What Ibis's compiler for Spark reads; Spark itself need not be there."""

    treat_nan_as_null: bool = False


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_can_be_said_in_the_sql_of_spark(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ibis.options, "pyspark", SparkOptions())
    answer = QUESTIONS[name].answer(declared_tables())
    assert "SELECT" in str(ibis.to_sql(answer, dialect="pyspark"))
