"""`tools.config_names` on the configs of several releases."""

from kdissect.protocol.notation import read_index
from tools.config_names.__main__ import RELEASES, Config, merged, scala_of

OLD = {"retention.ms": "long", "keys": "string", "gone": "int"}
NEW = {"retention.ms": "int", "keys": "password", "new": "list"}


def test_a_config_has_its_newest_type_and_a_password_stays_one() -> None:
    assert merged([("1.0.0", OLD), ("2.0.0", NEW), ("3.0.0", {"keys": "string"})]) == [
        Config("gone", "int", "1.0.0", "1.0.0"),
        Config("keys", "password", "1.0.0", "3.0.0"),
        Config("new", "list", "2.0.0", "2.0.0"),
        Config("retention.ms", "int", "1.0.0", "2.0.0"),
    ]


def test_the_file_is_sorted_has_each_name_once_and_knows_its_releases() -> None:
    rows = [Config(*row) for row in read_index("configs")]
    assert [row.name for row in rows] == sorted({row.name for row in rows})
    assert {row.first for row in rows} | {row.last for row in rows} <= set(RELEASES)
    assert (RELEASES[0], RELEASES[-1]) == (min(rows, key=order).first, max(rows, key=order).last)


def order(row: Config) -> list[int]:
    return [int(part) for part in row.last.split(".")]


def test_jars_of_brokers_are_named_after_a_scala_that_they_were_built_with() -> None:
    assert [scala_of(release) for release in ("0.10.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3")] == [
        "2.11", "2.11", "2.12", "2.12", "2.13",
    ]  # fmt: skip
