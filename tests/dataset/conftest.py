from tests.spark.publishing import few_or_many_rows  # noqa: F401  # a fixture
