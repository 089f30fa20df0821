"""Names of topics that are learnt late, and from later clients."""

import json
from pathlib import Path

from kdissect.live.files import topics
from kdissect.live.files.topics import TopicNames
from kdissect.protocol.primitives import uuid_text
from tests.live.replays import CAPTURES, EVERY, only_run, read_run, replay, rows_of

CAPTURE = CAPTURES / "consumer-groups-4.3.1.pcapng"
ORDERS, PAYMENTS = bytes(range(16)), bytes(range(16, 32))


def test_names_that_are_kept_come_back(tmp_path: Path) -> None:
    kept = TopicNames(tmp_path, is_secret=False)
    assert kept.read() == {}
    kept.keep({ORDERS: "orders"})
    kept.keep({ORDERS: "orders", PAYMENTS: "payments"})
    assert TopicNames(tmp_path, is_secret=False).read() == {ORDERS: "orders", PAYMENTS: "payments"}
    assert json.loads((tmp_path / "topics.json").read_text())[uuid_text(ORDERS)] == "orders"


def test_captures_that_share_a_directory_do_not_take_names_from_each_other(tmp_path: Path) -> None:
    TopicNames(tmp_path, is_secret=False).keep({ORDERS: "orders"})
    TopicNames(tmp_path, is_secret=False).keep({PAYMENTS: "payments"})
    assert TopicNames(tmp_path, is_secret=False).read() == {ORDERS: "orders", PAYMENTS: "payments"}


def test_there_is_a_limit_to_the_names_that_are_kept(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(topics, "KEPT_NAMES", 10)
    names = {number.to_bytes(16, "big"): str(number) for number in range(30)}
    kept = TopicNames(tmp_path, is_secret=False)
    kept.keep(names)
    assert list(kept.read().values()) == [str(number) for number in range(20, 30)]


def test_a_damaged_file_of_names_is_reported_and_recreated(tmp_path: Path) -> None:
    for content in ("[1]", "{", '{"short": "name"}', '{"' + "\\u00e9" * 22 + '": "name"}', "\xff"):
        (tmp_path / "topics.json").write_text(content)
        told: list[str] = []
        replay(CAPTURE, tmp_path, ["exchanges"], notice=told.append)
        assert len(told) == 1
        assert "topics.json is damaged" in told[0]


def test_the_next_start_knows_names_that_it_has_not_seen(tmp_path: Path) -> None:
    """As if all that tells a name was before it began."""
    replay(CAPTURE, tmp_path / "first", EVERY)
    for directory in ("second", "third"):
        (tmp_path / directory).mkdir()
    names = (tmp_path / "first" / "topics.json").read_text()
    renamed = {id_: f"{name} of before" for id_, name in json.loads(names).items()}
    (tmp_path / "second" / "topics.json").write_text(json.dumps(renamed))
    watcher = replay(CAPTURE, tmp_path / "second", EVERY)
    known = json.loads((tmp_path / "second" / "topics.json").read_text())
    assert known == {uuid_text(raw): name for raw, name in watcher.names.items()}
    assert set(known) == set(json.loads(names))


def test_knowing_the_names_before_changes_no_row(tmp_path: Path) -> None:
    replay(CAPTURE, tmp_path / "first", EVERY)
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "topics.json").write_bytes(
        (tmp_path / "first" / "topics.json").read_bytes()
    )
    replay(CAPTURE, tmp_path / "second", EVERY)
    for table in EVERY:
        first = read_run(only_run(tmp_path / "first"), table)
        assert rows_of(read_run(only_run(tmp_path / "second"), table)) == rows_of(first)


def test_an_unreadable_file_of_names_is_reported_and_replaced(tmp_path: Path) -> None:
    """As one of another user; for root, a directory is the unreadable file."""
    (tmp_path / "topics.json").mkdir()
    names = TopicNames(tmp_path, is_secret=False)
    assert names.read() == {}
    assert names.damage == (
        f"{tmp_path / 'topics.json'} cannot be read (Is a directory): it is written anew"
    )
