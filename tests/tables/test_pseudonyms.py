"""No address or name of a capture is in pages and tables with pseudonyms; all else is as it was."""

import json
import re
from base64 import urlsafe_b64decode
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kdissect
from kdissect.cli.program import run
from kdissect.errors import InvalidArgument
from kdissect.report.writing import make_report
from kdissect.tables.pseudonyms import (
    ANYWHERE,
    BROKERS,
    NAMES,
    NOT_SHOWN,
    PUBLIC,
    RELEASE,
    WITHHELD,
    WORDS,
    Pseudonyms,
)
from kdissect.tables.schemas import DEFAULT_TABLES, TABLES
from kdissect.text.pseudonyms import LETTERS
from tests.report.test_numbers import CAPTURES, data_of

# Ids of topics that mean the same in every cluster: none, and that of __cluster_metadata.
RESERVED_IDS = ("A" * 22, "A" * 21 + "Q")
SECRET = (
    "client_ip",
    "client_id",
    "topic",
    "group_id",
    "transactional_id",
    "sasl_user",
    "member_id",
)
KEY = b"a key of the tests"
OF_BROKERS = re.compile(r"(broker|raft-client|AddPartitionsManager|ReplicaFetcherThread)[a-z\d-]*")
SHORTEST = 4  # shorter names are parts of other words


def sentences() -> set[str]:
    """Words of findings themselves: a topic may be called `retried`."""
    sources = (Path(kdissect.__path__[0]) / "rules").glob("*.py")
    return {word for path in sources for word in re.findall(r"[\w-]+", path.read_text())}


def values_of(path: Path) -> set[str]:
    found: set[str] = set()
    for table in ("connections", "exchanges", "partitions", "members", "errors"):
        rows = kdissect.read(path, table=table).to_arrow()
        for column in set(SECRET) & set(rows.column_names):
            found |= set(rows[column].unique().to_pylist()) - {None}
    return found


def shown(data: dict[str, Any]) -> str:
    """The page's data about a capture, without the meanings of columns and the advice."""
    tables = [one["rows"] for one in data["tables"]]
    findings = [{key: one[key] for key in one if key != "next"} for one in data["findings"]]
    maps = [one["name"] for one in data["heat"]["maps"]]
    drawn = [data["bands"], [one["name"] for one in data["lag"]]]
    said = [tables, findings, maps, drawn, data["evidence"], data["sequences"], data["folded"]]
    return json.dumps(said, ensure_ascii=False)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_no_name_of_a_capture_is_in_its_page(path: Path) -> None:
    report = make_report(path, pseudonyms=Pseudonyms())
    text = shown(data_of(report.html))
    names = {name for name in values_of(path) - PUBLIC - sentences() if len(name) >= SHORTEST}
    kept = {name for name in names if OF_BROKERS.fullmatch(name)}
    found = {
        name for name in names - kept if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text)
    }
    assert found == set()
    assert path.name.encode() not in report.html


def test_a_key_gives_the_same_pseudonyms_and_no_other_does() -> None:
    one, same, other = Pseudonyms(b"k" * 16), Pseudonyms(b"k" * 16), Pseudonyms()
    assert one.name("topic", "orders") == same.name("topic", "orders")
    assert one.name("topic", "orders") != other.name("topic", "orders")
    assert one.name("topic", "__consumer_offsets") == "__consumer_offsets"
    assert one.name("client", "broker-1-fetcher-0") == "broker-1-fetcher-0"


def test_every_column_of_text_is_replaced_withheld_or_a_word() -> None:
    named = {column for _, column in NAMES}
    for table in TABLES.values():
        for column in table.columns:
            if column.type == "text":
                assert column.name in named | WITHHELD | WORDS
    assert not named & WITHHELD
    assert {column for table, column in NAMES if table == ANYWHERE}.isdisjoint(WORDS | WITHHELD)


def check_form(kind: str, old: str, new: str) -> None:
    """A pseudonym is as long as the name, and of one form; see `kdissect.text.pseudonyms`."""
    size = len(old.encode())
    if kind == "ip":
        assert ip_address(new).version == ip_address(old).version
        return
    if kind in ("subscription", "assignment", "resource"):
        assert len(new) == len(old) or new == NOT_SHOWN
        return
    assert len(new.encode()) == size
    if kind == "topic-id":
        assert len(urlsafe_b64decode(new + "==")) == 16
    elif re.fullmatch(r"/?(\d+\.){3}\d+", old):
        assert ip_address(new.removeprefix("/"))
    elif size >= 15:
        assert re.fullmatch(r"name-[0-9a-f]{10,}", new)
    elif size >= 12:
        assert re.fullmatch(r"n-[0-9a-f]{10,12}", new)
    else:
        assert re.fullmatch(r"[\w.-]+", new, re.ASCII)


@given(st.sampled_from([1, 2, 3, 5, 8, 11]), st.data())
def test_short_names_have_pseudonyms_that_no_other_has(size: int, data: st.DataObject) -> None:
    """A permutation of the names of a length: none collide, however short."""
    names = data.draw(st.sets(st.text(LETTERS, min_size=size, max_size=size), max_size=65))
    names -= PUBLIC
    made = Pseudonyms(KEY)
    assert len({made.name("topic", name) for name in names}) == len(names)


def test_all_names_of_one_or_two_letters_are_permuted() -> None:
    made = Pseudonyms(KEY)
    for names in (LETTERS, [one + other for one in LETTERS for other in LETTERS]):
        found = {made.name("topic", name) for name in names}
        assert found | PUBLIC >= set(names)
        assert len(found) == len(names)


@given(st.ip_addresses(v=4), st.ip_addresses(v=4))
def test_addresses_keep_their_networks_and_their_digits(one: Any, other: Any) -> None:
    cipher = Pseudonyms(KEY).cipher
    made = [ip_address(cipher.address(address.packed)) for address in (one, other)]
    assert (made[0] == made[1]) == (one == other)
    for old, new in zip((one, other), made, strict=True):
        assert [len(part) for part in str(new).split(".")] == [
            len(part) for part in str(old).split(".")
        ]
        assert new.is_loopback == old.is_loopback
        assert new.is_multicast == old.is_multicast
        assert cipher.text(str(old)) == str(new)
        parts = list(zip(str(old).split("."), str(new).split("."), strict=True))
        assert all(was != now for was, now in parts[1:])
    shared = [a == b for a, b in zip(str(one).split("."), str(other).split("."), strict=True)]
    kept = [a == b for a, b in zip(str(made[0]).split("."), str(made[1]).split("."), strict=True)]
    prefix = shared.index(False) if False in shared else 4
    assert kept[:prefix] == [True] * prefix
    assert prefix == 4 or not kept[prefix]


@given(st.text(max_size=40) | st.text("ab", max_size=300))
def test_any_text_has_a_pseudonym_of_its_size(text: str) -> None:
    made = Pseudonyms(KEY)
    data = text.encode("utf-8", "surrogatepass")
    assert len(made.name("topic", text).encode()) == len(data)
    assert len(made.wire("topic", data)) == len(data)
    assert made.wire("topic", data + b"\xff\xfe").isascii()


class Renamed:
    """Old and new names by kind, over all tables of a capture."""

    def __init__(self) -> None:
        self.new: dict[str, dict[str, str]] = {}

    def add(self, kind: str, olds: list[str | None], news: list[str | None]) -> None:
        known = self.new.setdefault(kind, {})
        for old, new in zip(olds, news, strict=True):
            if old is None:
                assert new is None
            else:
                assert known.setdefault(old, str(new)) == new, (kind, old)

    def check(self) -> None:
        """Each name has one pseudonym, and each pseudonym one name."""
        for kind, names in self.new.items():
            assert len(set(names.values())) == len(names), kind
            for old, new in names.items():
                if old == new:
                    assert stays(kind, old), old
                else:
                    check_form(kind, old, new)


def stays(kind: str, name: str) -> bool:
    """Whether it is no name that anybody gave: words and ids of Kafka, numbers of brokers."""
    if kind == "topic-id":
        return name in RESERVED_IDS
    if kind == "resource" and re.fullmatch(r"record \d+", name):
        return True  # where it is in its batch
    return bool(name in PUBLIC or BROKERS.fullmatch(name) or RELEASE.fullmatch(name))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_tables_differ_in_names_only_each_replaced_by_one_pseudonym(path: Path) -> None:
    renamed, count = Renamed(), 0
    for table in (*DEFAULT_TABLES, "records"):
        plain = kdissect.read(path, table=table).to_arrow()
        hidden = kdissect.read(path, table=table, anonymize=KEY).to_arrow()
        assert hidden.schema == plain.schema
        for column in TABLES[table].columns:
            olds, news = plain[column.name].to_pylist(), hidden[column.name].to_pylist()
            kind = NAMES.get((table, column.name)) or NAMES.get((ANYWHERE, column.name))
            if column.type != "text" or (kind is None and column.name in WORDS):
                assert news == olds, column.name
            elif kind is None:
                assert news == [None if old is None else NOT_SHOWN for old in olds]
            else:
                renamed.add(kind, olds, news)
                count += len(olds)
    renamed.check()
    assert count


def test_rows_are_chosen_by_their_names_and_sorted_by_their_pseudonyms() -> None:
    path = CAPTURES[0].parent / "quickstart.pcapng"
    names = kdissect.read(path, columns=["client_id"], where="client_id is not null").to_arrow()
    named = {one for one in names["client_id"].to_pylist() if not BROKERS.fullmatch(one)}
    name = min(named - PUBLIC)
    where = "client_id = '" + name.replace("'", "''") + "'"
    count = kdissect.read(path, where=where).to_arrow().num_rows
    rows = kdissect.read(path, columns=["client_id"], where=where, anonymize=KEY).to_arrow()
    assert rows["client_id"].to_pylist() == [Pseudonyms(KEY).name("client", name)] * count
    ordered = kdissect.read(path, columns=["client_id"], sort="client_id", anonymize=KEY)
    shown = [one for one in ordered.to_arrow()["client_id"].to_pylist() if one is not None]
    assert shown == sorted(shown)
    assert NOT_SHOWN not in shown
    assert name not in ordered._repr_html_()


def test_written_tables_are_those_that_are_read(tmp_path: Path) -> None:
    from pyarrow import parquet

    path, key = CAPTURES[0].parent / "quickstart.pcapng", tmp_path / "key"
    key.write_bytes(KEY)
    words = ["dissect", str(path), "-o", str(tmp_path / "made"), "--anonymize-key", str(key)]
    assert run(words) == 0
    for table in DEFAULT_TABLES:
        written = parquet.read_table(tmp_path / "made" / f"{table}.parquet")
        read = kdissect.read(path, table=table, anonymize=KEY).to_arrow()
        assert written.to_pylist() == read.to_pylist()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["table", "bodies"], "bodies have names within JSON: they cannot be anonymized"),
        (["dissect", "--bodies", "-o", "made"], "bodies have names within JSON"),
        (["dissect", "--payload", "-o", "made"], "keys, values and headers of records cannot be"),
        (["table", "records", "--payload"], "keys, values and headers of records cannot be"),
    ],
    ids=lambda case: "-".join(case)[:20] if isinstance(case, list) else "",
)
def test_contents_of_messages_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    path = CAPTURES[0].parent / "quickstart.pcapng"
    assert run([*words, str(path), "--anonymize"]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_can_be_guessed_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_bytes(b"fifteen bytes..")
    path = str(CAPTURES[0].parent / "quickstart.pcapng")
    words = ["table", "errors", path, "--anonymize-key", str(tmp_path / "key")]
    assert run(words) == 2
    assert "a key of 15 bytes can be guessed: use 16 or more" in capsys.readouterr().err
    with pytest.raises(InvalidArgument, match="a key of 0 bytes can be guessed"):
        kdissect.read(path, anonymize=b"")


def test_columns_that_are_no_text_have_no_names() -> None:
    """Rows with pseudonyms keep them: keys and values are refused before."""
    kinds = {"int8", "int16", "int32", "int64", "time", "bool", "text"}
    others = {
        (table.name, column.name)
        for table in TABLES.values()
        for column in table.columns
        if column.type not in kinds
    }
    assert others == {("records", "key"), ("records", "value"), ("records", "headers")}
