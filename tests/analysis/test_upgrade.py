"""Upgrade: the clients that break on another release, and the reasons given."""

import json
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.analysis import releases
from kdissect.analysis.questions.upgrade import VERDICTS
from kdissect.analysis.releases import Spoken, spoken_by
from kdissect.protocol.apis import APIS
from tests.analysis.made_tables import Row, asked, connection, exchange, write_tables

CAPTURES = Path("captures")


def call(number: int, api: str, version: int, connection_id: int = 1, **more: Any) -> Row:
    more = {"client_id": f"c{connection_id}"} | more
    return exchange(number, api, api_version=version, connection_id=connection_id, **more)


def whole(number: int, exchanges: int, **more: Any) -> Row:
    """A connection that is there from its SYN."""
    return connection(number, syn_seen=True, exchanges=exchanges, **more)


LEFT: Row = {"outcome": "unanswered", "response_start": None, "response_end": None}


def judged(tmp_path: Path, to: str = "4.0", **rows: Any) -> list[tuple[Any, ...]]:
    names = ("client", "api", "api_version", "verdict", "reason")
    found = asked("upgrade", tmp_path, {"to": to}, **rows)
    return [tuple(row[name] for name in names) for row in found]


def test_releases_support_the_versions_of_their_definitions() -> None:
    spoken = {one.api: one for one in spoken_by("4.0")}
    place = releases.RELEASES.index
    assert spoken["Produce"] == Spoken("Produce", 3, 12, 6, place("0.11.0"), place("2.1"))
    assert spoken["Fetch"] == Spoken("Fetch", 4, 17, -1, place("0.11.0"), place("0.11.0"))
    assert spoken["JoinGroup"] == Spoken("JoinGroup", 0, 9, 1, place("0.9.0"), place("0.11.0"))
    assert "LeaderAndIsr" not in spoken
    assert "ShareFetch" not in spoken  # early access
    assert Spoken("Fetch", 0, 11, -1, 0, 0) in spoken_by("2.4")


def test_the_releases_are_those_that_changed_the_protocol() -> None:
    spans = [span for api in APIS.values() for span in api.definition().releases.values()]
    named = {release for span in spans for release in (span.first, span.last) if release}
    assert tuple(sorted(named, key=releases.numbers)) == releases.RELEASES


def test_a_client_that_does_not_ask_for_versions_breaks(tmp_path: Path) -> None:
    exchanges = [call(1, "Produce", 2), call(2, "Metadata", 5, error_code=35)]
    assert judged(tmp_path, exchanges=exchanges, connections=[whole(1, 2)]) == [
        ("c1", "Produce", 2, "breaks",
         "Produce 2 is not in 4.0, which begins at 3; it does not ask for versions"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "refused"),
    [
        ({"ended_by": "broker"}, 1),
        ({"ended_by": "broker", "rst_by": "client"}, 1),  # their data came too late
        ({"ended_by": "client"}, 0),
        ({"ended_by": "client", "rst_by": "broker"}, 0),
        ({}, 0),  # the capture ends
        ({"ended_by": "broker", "packets_to_broker": 0}, 0),  # the client's FIN may be earlier
    ],
)
def test_a_request_is_refused_where_the_broker_closes_first(
    ends: Row, refused: int, tmp_path: Path
) -> None:
    requests = [call(1, "Produce", 2), call(2, "Produce", 2, **LEFT)]
    ways = {"packets_to_broker": 9, "packets_to_client": 9}
    (row,) = asked(
        "upgrade", tmp_path, {"to": "4.0"},
        exchanges=requests, connections=[whole(1, 2, **(ways | ends))],
    )  # fmt: skip
    assert (row["exchanges"], row["unanswered"]) == (2, refused)


def test_only_the_clients_own_requests_are_unanswered(tmp_path: Path) -> None:
    """Requests of other clients or versions, or without captured responses, do not count."""
    hidden = LEFT | {"decode_status": "response-not-captured"}
    exchanges = [
        call(1, "Produce", 2), call(2, "Produce", 2, **LEFT),
        call(3, "Produce", 2, 2), call(4, "Produce", 9, 2, **LEFT),
        call(5, "Produce", 2, 3, **hidden),
    ]  # fmt: skip
    ends = {"ended_by": "broker", "packets_to_broker": 9, "packets_to_client": 9}
    connections = [whole(1, 2, **ends), whole(2, 2, **ends), whole(3, 1, **ends)]
    found = asked("upgrade", tmp_path, {"to": "4.0"}, exchanges=exchanges, connections=connections)
    told = {(row["client"], row["api_version"]): row["unanswered"] for row in found}
    assert {name: told[name, 2] for name in ("c1", "c2", "c3")} == {"c1": 1, "c2": 0, "c3": 0}


def test_a_client_that_asks_may_know_a_newer_version(tmp_path: Path) -> None:
    exchanges = [call(1, "ApiVersions", 0), call(2, "Produce", 2)]
    assert judged(tmp_path, exchanges=exchanges, connections=[whole(1, 2)]) == [
        ("c1", "Produce", 2, "may break",
         "Produce 2 is not in 4.0, which begins at 3; it asks for versions and its broker is not "
         "known to have a newer one, so it may know one"),
    ]  # fmt: skip


def test_a_client_that_could_have_used_a_newer_version_breaks(tmp_path: Path) -> None:
    newer = call(3, "Metadata", 5, connection_id=2)  # Kafka 1.0 or newer; Produce 3 is of 0.11
    exchanges = [call(1, "ApiVersions", 0), call(2, "Produce", 2), newer]
    connections = [whole(1, 2), whole(2, 1)]
    assert judged(tmp_path, exchanges=exchanges, connections=connections) == [
        ("c1", "Produce", 2, "breaks",
         "Produce 2 is not in 4.0, which begins at 3; its broker has a newer one that the client "
         "did not take"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("software", "version", "verdict"),
    [
        ("librdkafka", "2.16.0", None),
        ("sarama", "v1.61.0", None),
        ("librdkafka", "1.8.2-RC3", None),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", None),
        ("confluent-kafka-go", "2.6.0-librdkafka-v2.6.0", None),
        ("confluent-kafka-python", "1.8.1-rdkafka-1.8.1", "may break"),
        ("confluent-kafka-python", "2.16.1", "may break"),
        ("librdkafka", "1.8.1", "may break"),
        ("sarama", "1.9.9", "may break"),
        ("librdkafka", None, "may break"),
        ("somebodys-own", "9.0", "may break"),
    ],
)
def test_a_library_that_supports_a_remaining_version_uses_it(
    software: str, version: str | None, verdict: str | None, tmp_path: Path
) -> None:
    # The name is in the request that a broker of that age refuses.
    exchanges = [call(1, "ApiVersions", 3, error_code=35), call(2, "Produce", 2)]
    said = {"client_software_name": software, "client_software_version": version}
    found = judged(tmp_path, exchanges=exchanges, connections=[whole(1, 2, **said)])
    assert [row[3] for row in found] == ([verdict] if verdict else [])


def test_a_library_configured_for_an_old_version_breaks(tmp_path: Path) -> None:
    newer = call(3, "Metadata", 5, connection_id=2)
    exchanges = [call(1, "ApiVersions", 3), call(2, "Produce", 2), newer]
    said = {"client_software_name": "sarama", "client_software_version": "1.61.0"}
    connections = [whole(1, 2, **said), whole(2, 1)]
    assert [row[3] for row in judged(tmp_path, exchanges=exchanges, connections=connections)] == [
        "breaks"
    ]


def test_a_rejected_version_is_no_evidence_of_the_brokers_release(tmp_path: Path) -> None:
    refused = call(1, "ApiVersions", 4, error_code=35)
    exchanges = [refused, call(2, "Produce", 2)]
    (row,) = asked("upgrade", tmp_path, exchanges=exchanges, connections=[whole(1, 2)])
    assert (row["verdict"], row["broker_release"]) == ("may break", "0.10.0")


def test_without_the_start_it_is_not_known_whether_a_client_asks(tmp_path: Path) -> None:
    found = judged(
        tmp_path, exchanges=[call(1, "Fetch", 2)], connections=[connection(1, exchanges=1)]
    )
    assert found == [
        ("c1", "Fetch", 2, "may break",
         "Fetch 2 is not in 4.0, which begins at 4; whether it asks for versions was not seen"),
    ]  # fmt: skip


def test_a_condition_that_hides_the_asking_does_not_make_a_client_break(tmp_path: Path) -> None:
    exchanges = [call(1, "ApiVersions", 0), call(2, "Produce", 2)]
    tables = write_tables(tmp_path, exchanges=exchanges, connections=[whole(1, 2)])
    (row,) = kdissect.analyse("upgrade", tables, where="api = 'Produce'").to_arrow().to_pylist()
    assert (row["verdict"], row["asks_versions"]) == ("may break", True)


def test_new_versions_are_no_finding_when_the_start_of_a_client_is_not_there(
    tmp_path: Path,
) -> None:
    assert judged(
        tmp_path, "2.4", exchanges=[call(1, "Fetch", 12)], connections=[connection(1, exchanges=1)]
    ) == []  # fmt: skip


def test_clients_that_name_their_software_request_api_versions(tmp_path: Path) -> None:
    java = {"client_software_name": "lib", "client_software_version": "1"}
    (row,) = asked(
        "upgrade", tmp_path, exchanges=[call(1, "Produce", 2)], connections=[connection(1, **java)]
    )
    assert (row["verdict"], row["asks_versions"]) == ("may break", True)


def test_old_formats_are_reported_in_requests_and_responses(tmp_path: Path) -> None:
    exchanges = [call(1, "Produce", 1), call(2, "Fetch", 11)]
    batches = [{"exchange_id": 1, "magic": 0}, {"exchange_id": 2, "magic": 1}]
    connections = [whole(1, 2)]
    found = judged(tmp_path, exchanges=exchanges, connections=connections, batches=batches)
    assert found == [
        ("c1", "Produce", 1, "breaks",
         "Produce 1 is not in 4.0, which begins at 3; writes message format 0; its broker has a "
         "newer one that the client did not take"),
        ("c1", "Fetch", 11, "old format",
         "reads message format 1, which 4.0 keeps only in old segments"),
    ]  # fmt: skip
    assert judged(
        tmp_path, "2.8", exchanges=exchanges, connections=connections, batches=batches
    ) == []  # fmt: skip


def test_brokers_are_upgraded_with_the_cluster(tmp_path: Path) -> None:
    exchanges = [
        call(1, "UpdateMetadata", 6),
        call(2, "JoinGroup", 1, connection_id=2),
        call(3, "Fetch", 18, connection_id=3, client_id="broker-2-fetcher-0"),
    ]
    connections = [whole(1, 1), whole(2, 1), whole(3, 1)]
    assert judged(tmp_path, exchanges=exchanges, connections=connections) == [
        ("c1", "UpdateMetadata", 6, "broker", "4.0 has no UpdateMetadata; upgraded with the "
         "cluster"),
        ("c2", "JoinGroup", 1, "deprecated",
         "JoinGroup 1 is deprecated, a later release may take it out"),
    ]  # fmt: skip


def test_versions_unknown_to_a_release_may_break_some_clients(
    tmp_path: Path,
) -> None:
    exchanges = [call(1, "Fetch", 12), call(2, "ApiVersions", 3, connection_id=2),
                 call(3, "Fetch", 12, connection_id=2)]  # fmt: skip
    bootstrap = call(4, "Metadata", 2)
    found = judged(
        tmp_path, "2.4", exchanges=[*exchanges, bootstrap], connections=[whole(1, 2), whole(2, 2)]
    )
    assert found == [
        ("c1", "Fetch", 12, "may break", "Fetch 12 is too new for 2.4; it does not ask for "
         "versions"),
    ]  # fmt: skip


def test_a_client_that_negotiated_before_the_capture_may_not_again(tmp_path: Path) -> None:
    """kafka-python 1.4 requests versions on its first connection, and metadata on the same one."""
    exchanges = [call(1, "Produce", 2)]
    (alone,) = judged(tmp_path, exchanges=exchanges, connections=[whole(1, 1)])
    assert alone[3:] == (
        "may break",
        "Produce 2 is not in 4.0, which begins at 3; whether it asks for versions was not seen",
    )
    exchanges.append(call(2, "Metadata", 0, connection_id=2, client_id="c1"))
    found = judged(tmp_path, exchanges=exchanges, connections=[whole(1, 1), whole(2, 1)])
    assert ("c1", "Produce", 2, "breaks") in {one[:4] for one in found}


JAVA = "apache-kafka-java"


@pytest.mark.parametrize(
    ("version", "verdicts"),
    [("0.10.2.2", ["breaks"]), ("2.4.1", []), ("7.5.0-ccs", ["may break"])],
)
def test_java_clients_know_the_versions_of_their_release(
    tmp_path: Path, version: str, verdicts: list[str]
) -> None:
    java = {"client_software_name": JAVA, "client_software_version": version}
    exchanges = [call(1, "ApiVersions", 0), call(2, "Produce", 2)]
    rows = asked("upgrade", tmp_path, exchanges=exchanges, connections=[whole(1, 2, **java)])
    assert [row["verdict"] for row in rows] == verdicts
    if verdicts == ["breaks"]:
        assert rows[0]["reason"] == (
            "Produce 2 is not in 4.0, which begins at 3; its release knows no newer one"
        )


@pytest.mark.parametrize(
    ("metadata", "produce", "verdict"), [(4, 3, "deprecated"), (5, 5, "deprecated")]
)
def test_a_java_client_that_was_guessed_has_a_range_of_releases(
    tmp_path: Path, metadata: int, produce: int, verdict: str
) -> None:
    exchanges = [call(1, "ApiVersions", 1), call(2, "Metadata", metadata),
                 call(3, "Produce", produce)]  # fmt: skip
    found = judged(tmp_path, exchanges=exchanges, connections=[whole(1, 3)])
    assert [row[:4] for row in found] == [("c1", "Produce", produce, verdict)]


def test_an_api_that_a_release_does_not_have_yet_may_not_be_needed(tmp_path: Path) -> None:
    exchanges = [call(1, "ApiVersions", 3), call(2, "ConsumerGroupDescribe", 0)]
    assert judged(tmp_path, "2.8", exchanges=exchanges, connections=[whole(1, 2)]) == [
        ("c1", "ConsumerGroupDescribe", 0, "may break",
         "2.8 has no ConsumerGroupDescribe; it asks for versions, so it may do without"),
    ]  # fmt: skip


def test_a_wrong_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        kdissect.KdissectError,
        match=r"no release '5\.0'; did you mean '4\.0'\? there are: 0\.8\.0, ",
    ):
        asked("upgrade", tmp_path, {"to": "5.0"})


@pytest.mark.parametrize("name", ["basics-4.0.1", "basics-4.3.1", "transactions-4.3.1"])
def test_clients_that_worked_with_kafka_4_do_not_break(name: str) -> None:
    rows = kdissect.analyse("upgrade", CAPTURES / f"{name}.pcapng").to_arrow().to_pylist()
    assert {row["verdict"] for row in rows} <= {"deprecated"}


@pytest.mark.parametrize("name", ["basics-0.10.2.2", "basics-2.4.1", "old-formats-2.4.1"])
def test_libraries_that_work_with_kafka_4_never_break_on_older_brokers(name: str) -> None:
    sidecar = json.loads((CAPTURES / f"{name}.json").read_text())
    library = {one["session"]: one["library"] for one in sidecar["sessions"]}
    rows = kdissect.analyse("upgrade", CAPTURES / f"{name}.pcapng").to_arrow().to_pylist()
    breaking = {
        library.get(row["client_id"], "tools") for row in rows if row["verdict"] == "breaks"
    }
    # kafka-python was configured with its brokers' release, and the tools use one version.
    assert breaking <= {"kafka_python@1.4.7", "tools"}
    assert {row["verdict"] for row in rows} <= set(VERDICTS)
    if name == "old-formats-2.4.1":
        produces = [row for row in rows if row["api"] == "Produce"]
        assert {(row["client_id"], row["api_version"]) for row in produces} >= {
            ("kafka-python-1.4.7-magic-0-none", 1), ("kafka-python-1.4.7-magic-1-gzip", 2)
        }  # fmt: skip


def overview(tmp_path: Path, to: str = "4.0", **rows: Any) -> tuple[str, list[tuple[Any, ...]]]:
    write_tables(tmp_path, **rows)
    found = kdissect.analyse("upgrade", tmp_path, to=to).overview
    assert found is not None
    return found.sentence, [(row["client_id"], row["verdict"], row["advice"]) for row in found.rows]


def test_answer_begins_with_breaking_clients_and_advice(tmp_path: Path) -> None:
    java = {"client_software_name": "apache-kafka-java", "client_software_version": "2.4.0"}
    exchanges = [
        call(1, "Produce", 2), call(2, "Fetch", 3), call(3, "Metadata", 5),  # c1 requests none
        call(4, "Fetch", 16, 2), call(5, "Metadata", 12, 2),  # c2 is fine
        call(6, "JoinGroup", 1, 3), call(7, "Metadata", 5, 3),  # c3 is of an old release
        call(8, "UpdateMetadata", 6, 4), call(9, "Vote", 0, 5),  # brokers are no clients
        call(10, "Fetch", 3, 6),  # unknown whether it requests them
    ]  # fmt: skip
    connections = [
        whole(1, 3), whole(2, 2, **java), whole(3, 2), whole(4, 1), whole(5, 1),
        connection(6, broker_ip="10.9.9.9"),
    ]  # fmt: skip
    assert overview(tmp_path, exchanges=exchanges, connections=connections) == (
        "1 of 4 clients breaks on 4.0, 1 more may",
        [
            ("c1", "breaks", "before the brokers, upgrade its library to one with the versions of "
             "Kafka 0.11.0, or end the setting that keeps it at old ones: 4.0 lacks Fetch 3, "
             "Produce 2"),
            ("c6", "may break", "try it on 4.0, or first upgrade its library to one with the "
             "versions of Kafka 0.11.0: 4.0 lacks Fetch 3"),
            ("c3", "deprecated", "after the brokers, upgrade its library to one with the versions "
             "of Kafka 0.11.0, or end the setting that keeps it at old ones: a later release may "
             "lack JoinGroup 1"),
        ],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["incident-old-clients-3.9.1", "incident-old-clients-4.3.1"])
def test_clients_are_counted_as_the_rows_and_the_table_have_them(name: str) -> None:
    answer = kdissect.analyse("upgrade", CAPTURES / f"{name}.pcapng")
    rows = answer.to_arrow().to_pylist()
    breaking = {(row["client_id"], row["client_ip"]) for row in rows if row["verdict"] == "breaks"}
    assert answer.overview is not None
    assert answer.overview.sentence.startswith(f"{len(breaking)} of ")
    names = [(row["client_id"], row["client_ip"]) for row in answer.overview.rows]
    assert len(names) == len(set(names))
    assert {(row["client_id"], row["client_ip"]) for row in rows if row["verdict"] != "broker"} == (
        set(names)
    )
