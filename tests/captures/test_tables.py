"""The tables of captures/quickstart.pcapng agree with the truth in its side-car."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.tables.schemas import TABLES

CAPTURES = Path(__file__).parents[2] / "captures"
CAPTURE = CAPTURES / "quickstart.pcapng"
SIDECAR = CAPTURES / "quickstart.json"
PRODUCE, FETCH, JOIN_GROUP, OFFSET_COMMIT = 0, 1, 11, 8
SOFTWARE = {"java": "apache-kafka-java", "librdkafka": "confluent-kafka-python",
            "kafka_python": "kafka-python", "aiokafka": None}  # fmt: skip

Row = dict[str, Any]
Place = tuple[str, int]


@cache
def sidecar() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SIDECAR.read_text(encoding="utf-8"))
    return loaded


@cache
def known(table: str) -> list[Row]:
    columns = sidecar()[table]["columns"]
    return [dict(zip(columns, row, strict=True)) for row in sidecar()[table]["rows"]]


@cache
def tables() -> dict[str, list[Row]]:
    """All tables, each row with its exchange (None where it has none)."""
    found: dict[str, list[Row]] = {name: [] for name in TABLES}
    options = kdissect.Options(tables=tuple(TABLES), payload=True, verify_crc=True)
    for name, batch in kdissect.Run(str(CAPTURE), options):
        found[name] += batch.to_pylist()
    by_id = {row["exchange_id"]: row for row in found["exchanges"]}
    for rows in found.values():
        for row in rows:
            row["exchange"] = by_id.get(row.get("exchange_id"))
    return found


@cache
def topic_names() -> dict[str, str]:
    return {row["topic_id"]: row["topic"] for row in known("topics")}


@cache
def client_endpoints() -> dict[int, str]:
    return {
        row["connection_id"]: f"{row['client_ip']}:{row['client_port']}"
        for row in tables()["connections"]
    }


def key_of(exchange: Row) -> tuple[str, int]:
    return client_endpoints()[exchange["connection_id"]], exchange["correlation_id"]


@cache
def known_keys() -> list[tuple[str, int]]:
    return [(row["connection"], row["correlation_id"]) for row in known("exchanges")]


@cache
def exchanges() -> dict[tuple[str, int], Row]:
    return {key_of(row): row for row in tables()["exchanges"]}


def of_api(table: str, *api_keys: int) -> list[Row]:
    return [row for row in tables()[table] if row["exchange"]["api_key"] in api_keys]


def sha256(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def content(row: Row) -> tuple[Any, ...]:
    """A record of either side: timestamp, key, value, number of headers."""
    if "key_sha256" in row:
        names = ("timestamp_ms", "key_sha256", "value_sha256", "header_count")
        return tuple(row[name] for name in names)
    time_ms = row["time"].value // 1_000_000
    return time_ms, sha256(row["key"]), sha256(row["value"]), row["header_count"]


def test_every_exchange_is_there_and_no_other() -> None:
    assert len(tables()["exchanges"]) == len(exchanges()) == len(known_keys())
    assert set(exchanges()) == set(known_keys())


def test_exchanges_are_of_the_connection_api_version_and_client_that_the_broker_logged() -> None:
    names = ("api_key", "api_version", "client_id")
    told = [tuple(row[name] for name in names) for row in known("exchanges")]
    assert [tuple(exchanges()[key][name] for name in names) for key in known_keys()] == told


def test_only_those_without_an_answer_are_not_answered() -> None:
    outcomes = Counter((row["outcome"], row["acks"]) for row in tables()["exchanges"])
    unanswered = [
        row["client_id"] for row in tables()["exchanges"] if row["outcome"] == "unanswered"
    ]
    acks0 = [row for row in known("produced") if row["acks"] == "0"]
    assert outcomes["no_response_expected", 0] == len(acks0) == 20
    assert sorted(unanswered) == ["clicks-rd", "worker-rd"]  # closed while they waited
    assert {outcome for outcome, _ in outcomes} == {
        "answered", "no_response_expected", "unanswered",
    }  # fmt: skip


def test_everything_decodes_but_the_requests_of_one_client() -> None:
    # librdkafka 2.16 writes the topics of this Metadata v13 as an int32, and 3 bytes are too many.
    told = [
        (row["kind"], row["exchange"]["client_id"], row["message"]) for row in tables()["problems"]
    ]
    text = "Metadata request v13: 3 bytes left over at byte 23 of 26"
    assert told == [("leftover-request", "admin-rd", text)] * 2
    statuses = Counter(row["decode_status"] for row in tables()["exchanges"])
    assert statuses == {"ok": len(known_keys()) - 2, "leftover": 2}


def test_throttle_times_match_the_brokers_log() -> None:
    for key, row in zip(known_keys(), known("exchanges"), strict=True):
        exchange = exchanges()[key]
        if exchange["outcome"] == "answered":
            assert (exchange["throttle_ms"] or 0) == row["throttle_ms"]
        else:
            assert exchange["throttle_ms"] is None


def test_errors_are_those_of_the_log_with_their_paths() -> None:
    found: dict[int, list[tuple[str, int]]] = {}
    for row in tables()["errors"]:
        found.setdefault(row["exchange_id"], []).append((row["path"], row["code"]))
    for key, row in zip(known_keys(), known("exchanges"), strict=True):
        told = [(re.sub(r"\[\d+\]", "[]", path), code) for path, code in row["errors"]]
        exchange = exchanges()[key]
        assert sorted(found.pop(exchange["exchange_id"], [])) == sorted(told)
        if exchange["outcome"] == "answered":
            assert exchange["error_count"] == len(told)
            assert exchange["error_code"] == (told[0][1] if told else 0)
    assert found == {}


def test_an_error_a_client_reports_is_in_the_errors_with_its_topic() -> None:
    found = {
        (row["exchange"]["client_id"], row["code"], row["topic"]) for row in tables()["errors"]
    }
    told = {
        (row["session"], row["code"], row["topic"])
        for row in known("errors")
        if row["code"] is not None and row["code"] > 0
    }
    told.remove(("doomed-java", 7, "doomed"))  # the client's own time-out
    assert {code for _, code, _ in told} >= {3, 10, 36, 38, 69}
    missing = told - found
    # An error of a group or of a list names no topic on one of the sides.
    assert {error for error in missing if error[2] is not None} == set()
    with_codes = {(client, code) for client, code, _ in found}
    assert {(client, code) for client, code, _ in missing} <= with_codes


def partitions_by_exchange(rows: Iterable[Row]) -> dict[tuple[str, int], dict[Place, Row]]:
    found: dict[tuple[str, int], dict[Place, Row]] = {}
    for row in rows:
        places = found.setdefault(key_of(row["exchange"]), {})
        assert (row["topic"], row["partition"]) not in places
        places[row["topic"], row["partition"]] = row
    return found


@cache
def known_partitions() -> dict[tuple[str, int], dict[Place, Row]]:
    found: dict[tuple[str, int], dict[Place, Row]] = {}
    for row in known("exchange_partitions"):
        topic = row["topic"] or topic_names().get(row["topic_id"])
        found.setdefault(known_keys()[row["exchange"]], {})[topic, row["partition"]] = row
    return found


@cache
def partitions() -> dict[tuple[str, int], dict[Place, Row]]:
    return partitions_by_exchange(of_api("partitions", PRODUCE, FETCH))


def test_every_partition_of_produce_and_fetch_is_there_and_no_other() -> None:
    assert {key: set(places) for key, places in partitions().items()} == {
        key: set(places) for key, places in known_partitions().items()
    }


def test_partitions_have_the_errors_sizes_and_offsets_of_the_log() -> None:
    for key, places in known_partitions().items():
        is_answered = exchanges()[key]["outcome"] == "answered"
        is_fetch = exchanges()[key]["api_key"] == FETCH
        for place, told in places.items():
            row = partitions()[key][place]
            assert row["topic_id"] == told["topic_id"]
            if is_answered or not is_fetch:
                assert row["record_bytes"] == told["records_size"]
            if is_answered:
                assert row["error_code"] == told["error_code"]
                assert row["base_offset"] == told["base_offset"]
                assert row["high_watermark"] == told["high_watermark"]
            else:
                assert row["error_code"] is row["base_offset"] is row["high_watermark"] is None


def test_fetch_offsets_are_those_asked_for_or_the_last_ones_of_the_session() -> None:
    for connection in {key[0] for key in known_partitions()}:
        session: dict[Place, int] = {}
        ids = sorted(key[1] for key in known_partitions() if key[0] == connection)
        for correlation_id in ids:
            for place, told in known_partitions()[connection, correlation_id].items():
                row = partitions()[connection, correlation_id][place]
                if told["fetch_offset"] is not None:
                    session[place] = told["fetch_offset"]
                assert row["fetch_offset"] == session.get(place)


def test_record_counts_are_those_of_the_batches_and_of_the_records() -> None:
    in_batches: Counter[tuple[Any, ...]] = Counter()
    batches: Counter[tuple[Any, ...]] = Counter()
    in_records: Counter[tuple[Any, ...]] = Counter()
    of_control: Counter[tuple[Any, ...]] = Counter()
    for row in tables()["batches"]:
        place = (row["exchange_id"], row["topic"], row["partition"])
        batches[place] += 1
        in_batches[place] += row["record_count"]
        of_control[place] += row["record_count"] if row["is_control"] else 0
    for row in tables()["records"]:
        in_records[row["exchange_id"], row["topic"], row["partition"]] += 1
    assert in_batches == in_records
    for row in tables()["partitions"]:
        place = (row["exchange_id"], row["topic"], row["partition"])
        assert (row["record_count"] or 0) == in_batches[place] - of_control[place]
        assert (row["control_count"] or 0) == of_control[place]
        assert (row["batch_count"] or 0) == batches[place]
    of_exchanges: Counter[int] = Counter()
    for (exchange_id, _, _), count in in_batches.items():
        of_exchanges[exchange_id] += count
    for (exchange_id, _, _), count in of_control.items():
        of_exchanges[exchange_id] -= count
    for row in tables()["exchanges"]:
        assert (row["record_count"] or 0) == of_exchanges[row["exchange_id"]]


def test_every_produced_record_is_at_its_offset_in_a_produce_exchange() -> None:
    bases = {
        (row["exchange_id"], row["topic"], row["partition"]): row["base_offset"]
        for row in of_api("partitions", PRODUCE)
    }
    untold = {row["session"] for row in known("produced") if row["timestamp_ms"] is None}
    assert untold == {"aio-acks0"}
    found = Counter[tuple[Any, ...]]()
    for row in of_api("records", PRODUCE):
        if row["exchange"]["error_code"]:
            continue  # MESSAGE_TOO_LARGE, UNKNOWN_TOPIC_ID: not produced
        base = bases[row["exchange_id"], row["topic"], row["partition"]]
        offset = None if base is None else base + row["offset"]
        place = (row["exchange"]["client_id"], row["topic"], row["partition"], offset)
        time_ms, *rest = content(row)
        found[*place, (None if place[0] in untold else time_ms, *rest)] += 1
    told = Counter(
        (row["session"], row["topic"], row["partition"], row["offset"], content(row))
        for row in known("produced")
    )
    assert found == told


def test_every_consumed_record_is_at_its_offset_in_a_fetch_exchange() -> None:
    controls = control_places()
    found: dict[tuple[str, str, int, int], tuple[Any, ...]] = {}
    for row in of_api("records", FETCH):
        place = (row["exchange"]["client_id"], row["topic"], row["partition"], row["offset"])
        if place[1:] not in controls:
            assert found.setdefault(place, content(row)) == content(row)
    told = {
        (row["session"], row["topic"], row["partition"], row["offset"]): content(row)
        for row in known("consumed")
    }
    assert {place: found.get(place) for place in told} == told


def control_places() -> set[tuple[str, int, int]]:
    """Offsets of transaction markers in the log."""
    return {
        (row["topic"], row["partition"], row["base_offset"])
        for row in of_api("batches", FETCH)
        if row["is_control"]
    }


def test_read_committed_consumers_miss_only_markers_and_aborted_records() -> None:
    got = {
        (row["topic"], row["partition"], row["offset"])
        for row in known("consumed")
        if row["session"] == "payments-java"
    }
    on_the_wire = {
        (row["topic"], row["partition"], row["offset"])
        for row in of_api("records", FETCH)
        if row["exchange"]["client_id"] == "payments-java"
    }
    aborted = {
        (row["topic"], row["partition"], row["offset"])
        for row in known("produced")
        if row["transaction"] == "aborted"
    }
    assert len(aborted) == 6
    assert len(control_places()) == 6
    assert on_the_wire - got == aborted | control_places()


def test_batches_of_a_transaction_say_so_and_have_its_producer() -> None:
    sessions = {row["session"] for row in known("produced") if row["transaction"]}
    rows = of_api("batches", PRODUCE)
    transactional = {row["exchange"]["client_id"] for row in rows if row["is_transactional"]}
    assert transactional == sessions == {"tx-java"}
    ids = {row["exchange"]["transactional_id"] for row in rows if row["is_transactional"]}
    assert ids == {"payments-tx"}
    producers = {row["producer_id"] for row in rows if row["is_transactional"]}
    assert len(producers) == 1
    assert None not in producers


def test_batches_have_the_codec_their_producer_is_configured_with() -> None:
    told = {(row["session"], row["codec"]) for row in known("produced")}
    found = {
        (row["exchange"]["client_id"], row["codec"])
        for row in of_api("batches", PRODUCE)
        if not row["exchange"]["error_code"]
    }
    # librdkafka sends a batch as it is when compression makes it no smaller.
    assert {pair for pair in found - told if not pair[0].startswith("rd-")} == set()
    assert told - found == {pair for pair in told - found if pair[0].startswith("rd-")}
    assert {codec for _, codec in found} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_acks_match_the_producers_configuration() -> None:
    told = {(row["session"], {"all": -1}.get(row["acks"]) or int(row["acks"] != "0"))
            for row in known("produced")}  # fmt: skip
    found = {
        (row["client_id"], row["acks"])
        for row in tables()["exchanges"]
        if row["api_key"] == PRODUCE and not row["error_code"]
    }
    assert found == told


def test_all_checksums_are_right() -> None:
    assert {row["crc_ok"] for row in tables()["batches"]} == {True}


def test_committed_offsets_are_those_that_were_committed() -> None:
    names = ("session", "group", "topic", "partition", "offset")
    told = Counter(tuple(row[name] for name in names) for row in known("commits"))
    found = Counter(
        (
            row["exchange"]["client_id"], row["exchange"]["group_id"], row["topic"],
            row["partition"], row["committed_offset"],
        )
        for row in of_api("partitions", OFFSET_COMMIT)
        if not row["error_code"]
    )  # fmt: skip
    assert found == told


def test_groups_of_membership_exchanges_are_those_of_the_log() -> None:
    for row in known("memberships"):
        exchange = exchanges()[known_keys()[row["exchange"]]]
        assert exchange["group_id"] == row["group"]
        assert exchange["error_code"] == row["error_code"]


def test_no_client_saw_a_record_acknowledged_sooner_than_its_exchange_took() -> None:
    sent = {
        (row["session"], row["topic"], row["partition"], row["offset"]): row
        for row in known("produced")
        if row["offset"] is not None
    }
    compared = 0
    for row in of_api("partitions", PRODUCE):
        exchange = row["exchange"]
        if exchange["outcome"] != "answered" or row["error_code"]:
            continue
        for offset in range(row["base_offset"], row["base_offset"] + row["record_count"]):
            told = sent[exchange["client_id"], row["topic"], row["partition"], offset]
            waited_ns = told["acknowledged_ns"] - told["sent_ns"]
            assert waited_ns >= exchange["latency_ns"]
            assert told["sent_ns"] <= exchange["request_start"].value
            assert exchange["response_start"].value <= told["acknowledged_ns"]
            compared += 1
    assert compared == len(sent)


def test_service_times_match_the_brokers_log() -> None:
    (pause,) = known("pauses")
    compared = 0
    for key, row in zip(known_keys(), known("exchanges"), strict=True):
        exchange = exchanges()[key]
        if exchange["outcome"] != "answered":
            continue
        if exchange["request_end"].value < pause["end_ns"] < exchange["response_start"].value:
            continue  # the broker received it when it resumed
        # The broker's time begins when it has read the request and ends after the response is sent;
        # the tap's ends at the first byte: a few ms of difference on a busy machine either way.
        assert abs(exchange["service_ns"] - row["total_ms"] * 1e6) < 10e6
        compared += 1
    assert compared > 300


def test_the_stopped_broker_is_one_slow_produce() -> None:
    (pause,) = known("pauses")
    slow = [
        row
        for row in tables()["exchanges"]
        if row["latency_ns"] is not None and row["latency_ns"] > 1_000_000_000
    ]
    assert [(row["client_id"], row["api"]) for row in slow] == [("slow-rd", "Produce")]
    (exchange,) = slow
    length = pause["end_ns"] - pause["start_ns"]
    assert length <= exchange["latency_ns"] < length + 50_000_000
    assert pause["start_ns"] < exchange["request_end"].value < pause["end_ns"]
    assert exchange["response_start"].value > pause["end_ns"]
    assert (exchange["queue_ns"], exchange["wait_ns"]) == (0, 0)
    assert exchange["work_ns"] == exchange["latency_ns"]


def test_first_joins_wait_for_the_initial_rebalance_delay_and_long_polls_for_their_time() -> None:
    joins = [row for row in tables()["exchanges"] if row["api_key"] == JOIN_GROUP]
    waited = sorted(row["wait_ns"] for row in joins if row["wait_ns"] > 500_000_000)
    assert all(600_000_000 <= wait_ns < 700_000_000 for wait_ns in waited)
    assert len(waited) == len({row["group"] for row in known("memberships")})
    empty = [row for row in tables()["exchanges"] if row["fetch_class"] == "empty"]
    polls = [row for row in empty if row["latency_ns"] >= 500_000_000 and not row["queue_ns"]]
    assert len(polls) > 10
    assert {row["wait_ns"] for row in polls} == {500_000_000}


def test_clients_name_their_software() -> None:
    libraries = {row["session"]: row["library"] for row in sidecar()["sessions"]}
    versions = sidecar()["software"]
    clients: dict[int, set[str]] = {}
    for row in tables()["exchanges"]:
        clients.setdefault(row["connection_id"], set()).add(row["client_id"])
    for row in tables()["connections"]:
        (client,) = clients[row["connection_id"]]
        library = libraries.get(client, "java")  # the broker's own connections to itself
        name, version = row["client_software_name"], row["client_software_version"]
        if client in libraries:
            assert name == SOFTWARE[library]
        if library == "kafka_python":
            assert version == versions["kafka-python"]
        elif library == "librdkafka":
            assert version == f"{versions['confluent-kafka']}-rdkafka-{versions['librdkafka']}"
        elif library == "java":
            assert version == versions["kafka-clients"]


def test_connections_are_whole_and_the_client_opened_each() -> None:
    for row in tables()["connections"]:
        assert (row["protocol"], row["broker_side_by"], row["syn_seen"]) == ("kafka", "syn", True)
        assert (row["broker_ip"], row["broker_port"]) == ("127.0.0.1", 9092)
        assert row["skipped_bytes_to_broker"] == row["skipped_bytes_to_client"] == 0
        assert row["missing_bytes_to_broker"] == row["missing_bytes_to_client"] == 0
    counted = Counter(row["connection_id"] for row in tables()["exchanges"])
    assert counted == {row["connection_id"]: row["exchanges"] for row in tables()["connections"]}


def test_requests_and_bytes_are_at_least_the_clients_counts() -> None:
    sums: dict[str, Counter[str]] = {}
    for row in tables()["exchanges"]:
        counted = sums.setdefault(row["client_id"], Counter())
        counted["tx"] += 1
        counted["tx_bytes"] += row["request_size"] + 4
        if row["response_size"] is not None:
            counted["rx"] += 1
            counted["rx_bytes"] += row["response_size"] + 4
    for row in known("statistics"):
        for name in ("tx", "tx_bytes", "rx", "rx_bytes"):
            assert row[name] <= sums[row["session"]][name]


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_has_rows(table: str) -> None:
    assert tables()[table]
