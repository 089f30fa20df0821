"""Every committed capture agrees with the truth in its side-car; one pass over each."""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.pipeline import Balance
from kdissect.tables.schemas import TABLES

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = [
    *sorted(path.stem for path in CAPTURES.glob("*.pcapng")),
    *sorted(f"networks/{path.stem}" for path in CAPTURES.glob("networks/*.pcapng")),
    *sorted(
        f"tls/{path.stem}" for path in CAPTURES.glob("tls/*.pcapng") if "closed" not in path.stem
    ),
]
PRODUCE, FETCH, UPDATE_METADATA, CONTROLLED_SHUTDOWN, OFFSET_COMMIT = 0, 1, 6, 7, 8
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE, ENVELOPE, SHARE_FETCH = 17, 18, 36, 58, 78
# librdkafka 2.16 leaves an int32 count before the topics of Metadata v13: 3 bytes too many.
METADATA_OF_LIBRDKAFKA = "Metadata request v13: 3 bytes left over at byte 23 of 26"
PROBLEMS = {"quickstart": {("leftover-request", METADATA_OF_LIBRDKAFKA): 2}}
# Errors of a client's own making under a code of Kafka: a time-out (7), a connection that was
# closed on it (13), an operation that the library knows the broker not to have (35).
OWN_ERRORS = {
    "quickstart": {("doomed-java", 7)},
    "telemetry-3.9.1": {("admin-java", 35)},
    "incident-old-clients-4.3.1": {("java-0.9.0.1-writer", 13), ("java-0.10.2.2-writer", 13)},
}

SASL_FAILED = 58
# How the libraries name them, and their users, in the side-car's settings.
MECHANISM_SETTINGS = ("sasl.mechanism", "sasl_mechanism", "mechanism")
USER_SETTING = (
    r'(?:username=\\"|unsecuredLoginStringClaim_sub=\\"|"sasl.username": "'
    r'|principal=|"sasl_plain_username": "|"user": ")([^"\\]+)'
)

Row = dict[str, Any]
Record = tuple[Any, ...]
PLACE = ("session", "topic", "partition", "offset")


def sha256(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


class Recording:
    """A capture as kdissect reads it, and its side-car."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sidecar = json.loads((CAPTURES / f"{name}.json").read_text(encoding="utf-8"))
        self.tables: dict[str, list[Row]] = {table: [] for table in TABLES if table != "bodies"}
        keys = CAPTURES / f"{name}.keys"
        options = kdissect.Options(
            tables=tuple(self.tables),
            payload=True,
            verify_crc=True,
            keylog=keys if keys.exists() else (),
        )
        run = kdissect.Run(str(CAPTURES / f"{name}.pcapng"), options)
        for table, batch in run:
            self.tables[table] += batch.to_pylist()
        self.balance: Balance = run.balance
        self.by_id = {row["exchange_id"]: row for row in self.tables["exchanges"]}
        self.connections = {row["connection_id"]: row for row in self.tables["connections"]}

    def known(self, table: str) -> list[Row]:
        """Rows of the side-car."""
        columns = self.sidecar[table]["columns"]
        return [dict(zip(columns, row, strict=True)) for row in self.sidecar[table]["rows"]]

    def of_api(self, table: str, *api_keys: int) -> list[tuple[Row, Row]]:
        """Rows of a table with their exchanges."""
        pairs = [(row, self.by_id[row["exchange_id"]]) for row in self.tables[table]]
        return [pair for pair in pairs if pair[1]["api_key"] in api_keys]

    def key_of(self, exchange: Row) -> tuple[str, int, int, int, str]:
        """Key of an exchange as in the broker's log."""
        connection = self.connections[exchange["connection_id"]]
        names = ("correlation_id", "api_key", "api_version", "client_id")
        client = f"{connection['client_ip']}:{connection['client_port']}"
        return client, *(exchange[name] for name in names)

    @cached_property
    def exchanges(self) -> dict[tuple[Any, ...], list[Row]]:
        """Exchanges by the fields that identify them in the broker's log, in the order of the
        capture.
        """
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.tables["exchanges"]:
            found.setdefault(self.key_of(row), []).append(row)
        return found

    @cached_property
    def topic_names(self) -> dict[str, str]:
        """Topic names by id."""
        return {row["topic_id"]: row["topic"] for row in self.known("topics")}


def logged_key(row: Row) -> tuple[Any, ...]:
    """Key of an exchange in the broker's log."""
    names = ("connection", "correlation_id", "api_key", "api_version", "client_id")
    return tuple(row[name] for name in names)


@pytest.fixture(scope="module", params=NAMES)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def test_every_byte_is_accounted_for(recording: Recording) -> None:
    balance = recording.balance
    assert balance.packets == recording.sidecar["capture"]["packets"]
    accounted = balance.framed_bytes + balance.tls_bytes + balance.duplicate_bytes
    assert balance.payload_bytes == accounted
    assert (balance.skipped_bytes, balance.missing_bytes, balance.encrypted_bytes) == (0, 0, 0)
    assert (balance.tls_bytes > 0) == recording.name.startswith("tls/")
    assert set(balance.protocols) <= {"kafka", "none"}


def test_there_are_no_problems_but_those_that_are_explained(recording: Recording) -> None:
    found = Counter((row["kind"], row["message"]) for row in recording.tables["problems"])
    assert found == PROBLEMS.get(recording.name, {})


def test_every_body_is_decoded_unless_its_connection_closed_within_it(
    recording: Recording,
) -> None:
    for row in recording.tables["exchanges"]:
        if row["decode_status"] == "damaged":
            # The broker was sending when its client closed: the end is not in the capture.
            assert row["response_end"] is None
            assert recording.connections[row["connection_id"]]["closed_by"] in ("fin", "rst")
        elif row["decode_status"] != "ok":
            assert recording.name in PROBLEMS


def test_every_exchange_of_the_brokers_log_is_there(recording: Recording) -> None:
    told = Counter(map(logged_key, recording.known("exchanges")))
    found = Counter({key: len(rows) for key, rows in recording.exchanges.items()})
    # Of brokers that are going down: their last requests come when tcpdump has ended.
    assert {key[2] for key in told - found} <= {UPDATE_METADATA, CONTROLLED_SHUTDOWN}
    assert sum((told - found).values()) <= 3


def test_requests_missing_in_the_brokers_log_have_no_handler(recording: Recording) -> None:
    told = set(map(logged_key, recording.known("exchanges")))
    for key, rows in recording.exchanges.items():
        if key in told:
            continue
        for row in rows:
            connection = recording.connections[row["connection_id"]]
            assert (
                row["outcome"] != "answered"
                or row["decode_status"] == "damaged"
                or row["api_key"] in (SASL_HANDSHAKE, SASL_AUTHENTICATE, ENVELOPE)
                # Before the login is over, the network thread answers.
                or (row["api_key"] == API_VERSIONS and connection["sasl_mechanism"])
            ), row


def test_error_codes_are_those_of_the_brokers_log(recording: Recording) -> None:
    errors: dict[int, list[int]] = {}
    for row in recording.tables["errors"]:
        if not row["path"].endswith("_message"):  # refused records have no code of their own
            errors.setdefault(row["exchange_id"], []).append(row["code"])
    for row in recording.known("exchanges"):
        key = logged_key(row)
        rows = recording.exchanges.get(key, [])
        if len(rows) == 1 and rows[0]["outcome"] == "answered" and row["errors"] is not None:
            told = sorted(code for _, code in row["errors"])
            assert sorted(errors.get(rows[0]["exchange_id"], [])) == told, row


def test_errors_that_clients_report_are_there(recording: Recording) -> None:
    found = {
        (recording.by_id[row["exchange_id"]]["client_id"], row["code"])
        for row in recording.tables["errors"]
    }
    told = {
        (row["session"], row["code"])
        for row in recording.known("errors")
        if row["code"] is not None and row["code"] > 0
    }
    assert told - found == OWN_ERRORS.get(recording.name, set())


def test_partitions_are_those_of_the_brokers_log(recording: Recording) -> None:
    found: dict[tuple[Any, ...], Row] = {}
    for row, exchange in recording.of_api("partitions", PRODUCE, FETCH):
        found[*recording.key_of(exchange)[:2], row["topic"], row["partition"]] = row
    log = recording.known("exchanges")
    for told in recording.known("exchange_partitions"):
        exchange = log[told["exchange"]]
        topic = told["topic"] or recording.topic_names.get(told["topic_id"])
        if topic is None or exchange["api_key"] not in (PRODUCE, FETCH):
            continue
        place = (exchange["connection"], exchange["correlation_id"], topic, told["partition"])
        (row,) = recording.exchanges[logged_key(exchange)]
        if row["outcome"] == "answered" and row["decode_status"] != "damaged":
            row = found[place]
            names = ("error_code", "base_offset", "high_watermark")
            assert [row[name] for name in names] == [told[name] for name in names], place
            if told["records_size"] is not None:  # 2.8 does not log it
                assert row["record_bytes"] == told["records_size"], place


def content(row: Row) -> Record:
    """A record of either side: key, value, number of headers."""
    if "key_sha256" in row:
        return row["key_sha256"], row["value_sha256"], row["header_count"]
    return sha256(row["key"]), sha256(row["value"]), row["header_count"]


def produced(recording: Recording) -> Iterator[Record]:
    """Every record in a Produce request, with its offset when the answer gave it one."""
    bases = {
        (row["exchange_id"], row["topic"], row["partition"]): row["base_offset"]
        for row, _ in recording.of_api("partitions", PRODUCE)
    }
    counts: Counter[tuple[Any, ...]] = Counter()
    for row, exchange in recording.of_api("records", PRODUCE):
        place = (row["exchange_id"], row["topic"], row["partition"])
        base = bases[place]
        offset = None if base in (None, -1) else base + counts[place]
        counts[place] += 1
        yield exchange["client_id"], row["topic"], row["partition"], offset, *content(row)


def test_every_produced_record_is_at_its_offset_in_a_produce_exchange(
    recording: Recording,
) -> None:
    found = Counter(produced(recording))
    without_offset = Counter(record[:3] + record[4:] for record in found.elements())
    for row in recording.known("produced"):
        place = (row["session"], row["topic"], row["partition"])
        if row["offset"] is None:
            assert without_offset[*place, *content(row)], row
        else:
            assert found[*place, row["offset"], *content(row)], row


def test_every_consumed_record_is_at_its_offset_in_a_fetch_exchange(recording: Recording) -> None:
    found = {
        (exchange["client_id"], row["topic"], row["partition"], row["offset"], *content(row))
        for row, exchange in recording.of_api("records", FETCH, SHARE_FETCH)
    }
    told = {
        (row["session"], row["topic"], row["partition"], row["offset"], *content(row))
        for row in recording.known("consumed")
    }
    assert told - found == set()


def test_every_commit_is_in_an_offset_commit_exchange(recording: Recording) -> None:
    found = Counter(
        (exchange["client_id"], exchange["group_id"], row["topic"], row["partition"],
         row["committed_offset"])
        for row, exchange in recording.of_api("partitions", OFFSET_COMMIT)
        if not row["error_code"]
    )  # fmt: skip
    names = ("session", "group", "topic", "partition", "offset")
    told = Counter(tuple(row[name] for name in names) for row in recording.known("commits"))
    assert told - found == Counter()


def test_groups_generations_and_errors_of_memberships_are_those_of_the_log(
    recording: Recording,
) -> None:
    log = recording.known("exchanges")
    for row in recording.known("memberships"):
        told = log[row["exchange"]]
        (exchange,) = recording.exchanges[logged_key(told)]
        assert exchange["group_id"] == row["group"]
        if exchange["outcome"] == "answered" and (row["error_code"] or not told["errors"]):
            assert exchange["error_code"] == row["error_code"]


def test_checksums_of_all_batches_are_right(recording: Recording) -> None:
    assert {row["crc_ok"] for row in recording.tables["batches"]} <= {True}


def test_no_client_waited_less_than_its_exchange_took(recording: Recording) -> None:
    sent = {
        (row["session"], row["topic"], row["partition"], row["offset"]): row
        for row in recording.known("produced")
        if row["offset"] is not None and row["acknowledged_ns"] is not None
    }
    for row, exchange in recording.of_api("partitions", PRODUCE):
        if exchange["outcome"] != "answered" or row["error_code"] or row["base_offset"] is None:
            continue
        place = (exchange["client_id"], row["topic"], row["partition"], row["base_offset"])
        if told := sent.get(place):
            assert told["acknowledged_ns"] - told["sent_ns"] >= exchange["latency_ns"]
            assert told["sent_ns"] <= exchange["request_start"].value
            assert exchange["response_start"].value <= told["acknowledged_ns"]


def test_no_client_counted_more_requests_or_bytes_than_are_there(recording: Recording) -> None:
    libraries = {row["session"]: row["library"] for row in recording.sidecar["sessions"]}
    requests: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in recording.tables["exchanges"]:
        requests[row["client_id"]] += 1
        sizes[row["client_id"]] += row["request_size"] + 4
    for row in recording.known("statistics"):
        assert row["tx_bytes"] <= sizes[row["session"]]
        # Kafka's Java clients before 2.0 give the bytes as their number of requests.
        if not libraries[row["session"]].startswith(("java@0.", "java@1.")):
            assert row["tx"] <= requests[row["session"]]


def login_of(session: Row, recording: Recording) -> tuple[str, str | None] | None:
    """Mechanism and user in a session's client configuration; None when it does not log in."""
    for row in recording.known("operations"):
        settings = (row["arguments"] or {}).get("settings") or {}
        mechanism = next((settings[name] for name in MECHANISM_SETTINGS if name in settings), None)
        if row["session"] == session["session"] and mechanism:
            return mechanism, user_in(settings)
    return None


def user_in(settings: Row) -> str | None:
    """The user that a session's settings name; None for a bearer token that has no ``sub``."""
    if "token" in settings:
        claims = settings["token"].split(".")[1]
        return str(json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"])
    user = re.search(USER_SETTING, json.dumps(settings))
    return user[1] if user else None


def test_logins_are_those_of_the_clients(recording: Recording) -> None:
    failed = {
        row["session"]
        for row in recording.known("errors")
        # kafka-python does not wait for the code; it is refused when it opens a producer.
        if row["code"] == SASL_FAILED or row["operation"] == "open_producer"
    }
    logins: dict[str, set[tuple[Any, ...]]] = {}
    clients = {row["connection_id"]: row["client_id"] for row in recording.tables["exchanges"]}
    for row in recording.tables["connections"]:
        names = ("sasl_mechanism", "sasl_user", "sasl_outcome")
        found = tuple(row[name] for name in names)
        logins.setdefault(clients.get(row["connection_id"], ""), set()).add(found)
    for session in recording.sidecar["sessions"]:
        if (login := login_of(session, recording)) and session["session"] in logins:
            outcome = "failed" if session["session"] in failed else "ok"
            assert logins[session["session"]] == {(*login, outcome)}, session


def test_a_session_that_outlives_its_login_logs_in_again() -> None:
    for name in ("sasl-2.8.2", "sasl-4.3.1"):
        recording = Recording(name)
        ids = {
            row["connection_id"]
            for row in recording.tables["exchanges"]
            if str(row["client_id"]).endswith("-stays")
        }
        counts = [recording.connections[number]["sasl_logins"] for number in ids]
        assert max(counts) > 1


def test_generations_of_memberships_are_those_of_the_log(recording: Recording) -> None:
    generations: dict[int, set[int | None]] = {}
    for row in recording.tables["members"]:
        generations.setdefault(row["exchange_id"], set()).add(row["generation"])
    log = recording.known("exchanges")
    for row in recording.known("memberships"):
        (exchange,) = recording.exchanges[logged_key(log[row["exchange"]])]
        found = generations.get(exchange["exchange_id"])
        if found is not None and row["generation"] is not None:
            told = None if row["generation"] == -1 else row["generation"]
            assert told in found, row


def test_records_of_a_transaction_and_no_others_are_in_its_batches(recording: Recording) -> None:
    told = {
        (row["session"], row["topic"], row["partition"], row["offset"]): bool(row["transaction"])
        for row in recording.known("produced")
        if row["offset"] is not None
    }
    bases = {
        (row["exchange_id"], row["topic"], row["partition"]): row["base_offset"]
        for row, _ in recording.of_api("partitions", PRODUCE)
    }
    for row, exchange in recording.of_api("batches", PRODUCE):
        base = bases[row["exchange_id"], row["topic"], row["partition"]]
        place = (exchange["client_id"], row["topic"], row["partition"], base)
        if place in told:
            assert bool(row["is_transactional"]) == told[place], place


def test_records_that_a_client_aborted_are_marked_where_the_response_can_tell(
    recording: Recording,
) -> None:
    told = {
        (row["topic"], row["partition"], row["offset"]): row["transaction"] == "aborted"
        for row in recording.known("produced")
        if row["transaction"] in ("aborted", "committed")
    }
    for row, _ in recording.of_api("records", FETCH):
        place = (row["topic"], row["partition"], row["offset"])
        if place in told and row["is_aborted"] is not None:
            assert row["is_aborted"] == told[place], place
    for row, _ in recording.of_api("records", PRODUCE):
        assert row["is_aborted"] is not True
    consumed = {tuple(row[name] for name in PLACE) for row in recording.known("consumed")}
    for row, exchange in recording.of_api("records", FETCH):
        place = (exchange["client_id"], row["topic"], row["partition"], row["offset"])
        assert not (row["is_aborted"] and place in consumed), place


def test_both_answers_are_among_the_recorded_transactions() -> None:
    marked = Counter(
        row["is_aborted"]
        for name in ("transactions-0.11.0.3", "transactions-2.8.2", "transactions-4.3.1")
        for row, _ in Recording(name).of_api("batches", FETCH)
        if row["is_transactional"] and not row["is_control"]
    )
    assert marked.keys() == {None, False, True}
