"""Delivery and sequences: the risks that producers took, and the outcomes."""

from pathlib import Path
from typing import Any

import pytest

import kdissect
from tests.analysis.from_sidecars import tables_of_sidecar
from tests.analysis.made_produce import LOST, NOT_LEADER, SILENT, TOO_LARGE, Sent
from tests.analysis.made_tables import asked

COUNTS = ("batches", "records", "sent_again", "written_twice", "records_twice", "given_up")


def risk(sent: Sent, directory: Path) -> str:
    (row,) = asked("delivery", directory, **sent.rows)
    return str(row["risk"])


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (Sent().add(0, 0).add(1, 3, on=2), "wrote twice"),
        (Sent().add(0, 0, sequence=0).add(1, TOO_LARGE, sequence=3), "gave up"),
        (Sent().add(0, NOT_LEADER, sequence=0).add(1, 0, sequence=0), "none"),
        (Sent().add(0, LOST, sequence=0), "unanswered at the end"),
        (Sent().add(0, SILENT, acks=0), "may lose: not answered (acks=0)"),
        (Sent().add(0, SILENT, acks=None), "may lose: not answered (acks=0)"),
        (Sent().add(0, 0, acks=1), "may lose at a failover: acks=1"),
        (Sent().add(0, 0), "may repeat: not idempotent"),
        (Sent().add(0, 0, sequence=0), "none"),
    ],
)
def test_the_worst_risk_is_reported(sent: Sent, said: str, tmp_path: Path) -> None:
    assert risk(sent, tmp_path) == said


def test_undecoded_batches_are_not_judged(tmp_path: Path) -> None:
    sent = Sent().add(0, 0)
    sent.rows["batches"].clear()
    assert risk(sent, tmp_path) == "unknown: batches were not decoded"


def test_batches_are_counted_once_however_often_they_are_sent(tmp_path: Path) -> None:
    sent = Sent().add(0, LOST, sequence=0).add(1, NOT_LEADER, sequence=0, on=2)
    sent.add(2, 0, sequence=0, on=2).add(3, TOO_LARGE, sequence=3)
    (row,) = asked("delivery", tmp_path, **sent.rows)
    assert [row[name] for name in COUNTS] == [2, 6, 1, 0, 0, 1]
    assert row["last_error"] == "MESSAGE_TOO_LARGE"


def test_producers_come_with_the_worst_first(tmp_path: Path) -> None:
    sent = Sent().add(0, 0, client="careful", sequence=0).add(1, SILENT, client="careless", acks=0)
    sent.add(2, TOO_LARGE, client="large", sequence=9)
    rows = asked("delivery", tmp_path, **sent.rows)
    assert [row["client_id"] for row in rows] == ["large", "careless", "careful"]


def test_producers_of_the_quickstart_are_as_they_were_configured() -> None:
    sidecar = tables_of_sidecar("quickstart")
    configured = {
        (row["session"], row["topic"], -1 if row["acks"] == "all" else int(row["acks"]))
        for row in sidecar["produced"]
    }
    answer = kdissect.analyse("delivery", "captures/quickstart.pcapng").to_arrow().to_pylist()
    assert {(row["client_id"], row["topic"], row["acks"]) for row in answer} == configured
    records = {(row["client_id"], row["topic"]): row["records"] for row in answer}
    failed = {("doomed-java", "doomed"), ("tiny-kp", "tiny")}
    for key in records.keys() - failed:
        produced = [row for row in sidecar["produced"] if (row["session"], row["topic"]) == key]
        assert records[key] == len(produced), key
    given_up = {(row["client_id"], row["topic"]) for row in answer if row["given_up"]}
    assert given_up == failed


def numbers(directory: Path, sent: Sent) -> dict[str, Any]:
    (row,) = asked("sequences", directory, **sent.rows)
    names = ("batches", "records", "repeated", "reordered", "missing")
    return {name: row[name] for name in names} | {
        "range": (row["first_sequence"], row["last_sequence"])
    }


def test_numbers_in_order_have_nothing_odd(tmp_path: Path) -> None:
    sent = Sent().add(0, 0, sequence=0).add(1, 3, sequence=3).add(2, 6, sequence=6)
    assert numbers(tmp_path, sent) == {
        "batches": 3, "records": 9, "repeated": 0, "reordered": 0, "missing": 0, "range": (0, 8),
    }  # fmt: skip


def test_numbers_that_repeat_lack_or_go_back_are_counted(tmp_path: Path) -> None:
    sent = Sent().add(0, 0, sequence=0).add(1, 9, sequence=9).add(2, 3, sequence=3)
    sent.add(3, 3, sequence=3)
    assert numbers(tmp_path, sent) == {
        "batches": 3, "records": 9, "repeated": 1, "reordered": 1, "missing": 3, "range": (0, 11),
    }  # fmt: skip


def test_the_turn_of_the_numbers_is_no_hole(tmp_path: Path) -> None:
    sent = Sent().add(0, 0, sequence=(1 << 31) - 3).add(1, 3, sequence=0)
    assert numbers(tmp_path, sent)["missing"] == 0


def test_answers_about_sequences_are_counted(tmp_path: Path) -> None:
    out_of_order = {"error_code": 45, "error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    duplicate = {"error_code": 46, "error": "DUPLICATE_SEQUENCE_NUMBER"}
    sent = Sent().add(0, out_of_order, sequence=6).add(1, duplicate, sequence=6)
    (row,) = asked("sequences", tmp_path, **sent.rows)
    assert (row["out_of_order_errors"], row["duplicate_errors"]) == (1, 1)


def test_producers_without_numbers_are_not_there(tmp_path: Path) -> None:
    assert asked("sequences", tmp_path, **Sent().add(0, 0).rows) == []


@pytest.mark.parametrize("release", ["2.8.2", "4.3.1"])
def test_each_real_idempotent_producer_repeated_a_batch_for_each_partition(release: str) -> None:
    sidecar = tables_of_sidecar(f"retries-{release}")
    rows = kdissect.analyse("sequences", f"captures/retries-{release}.pcapng").to_arrow()
    for row in rows.to_pylist():
        produced = [
            record for record in sidecar["produced"]
            if (record["session"], record["partition"]) == (row["client_id"], row["partition"])
        ]  # fmt: skip
        assert (row["records"], row["last_sequence"] + 1) == (len(produced), len(produced))
        assert (row["repeated"], row["missing"], row["reordered"]) == (1, 0, 0)
    assert rows.num_rows == {"2.8.2": 2, "4.3.1": 4}[release]
