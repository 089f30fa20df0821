"""Keys that vendors add: a vendor's name is given only where the broker is known to be that one's.

The keys that listeners of AutoMQ and Inkless offer are those of the vendors' own definitions.
"""

import random
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

import kdissect
from kdissect.live.counting.waiting import waits_of
from kdissect.messages.offered_keys import keys_above
from kdissect.pipeline import Options
from kdissect.protocol.apis import AUTOMQ, INKLESS, VENDOR_APIS, vendor_of
from tests.checkpoint.law import together, whole
from tests.conversation import Conversation, conversation
from tests.exchange_builders import (
    found_in,
    make_body,
    raw_request,
    raw_response,
    request,
    response,
)

APACHE = range(90)
AUTOMQ_BROKER = [*APACHE, *range(501, 516), 516, 519, 520, 600, 601, 602]
AUTOMQ_CONTROLLER = [1, 18, 50, *range(501, 515), 517, 518, 600, 601]
INKLESS_BROKER = [*APACHE, 501, 502]
INKLESS_CONTROLLER = [1, 18, 50, 500, 501]
OFFERS = {
    "AutoMQ-": (AUTOMQ_BROKER, AUTOMQ_CONTROLLER),
    "Inkless-": (INKLESS_BROKER, INKLESS_CONTROLLER),
    "api-": (APACHE, [*APACHE, 501], [*APACHE, *range(501, 505)], [*APACHE, 10_000, 10_502]),
}


def offer(keys: Iterable[int]) -> dict[str, object]:
    return {"api_keys": [{"api_key": key, "min_version": 0, "max_version": 3} for key in keys]}


def versions(talk: Conversation, keys: Iterable[int], version: int, number: int) -> Conversation:
    """An ApiVersions exchange."""
    talk = talk.client(request("ApiVersions", version, number))
    return talk.broker(response("ApiVersions", version, number, **offer(keys)))


def asked(talk: Conversation, key: int, number: int) -> Conversation:
    return talk.client(raw_request(key, 0, number, b"\0??")).broker(raw_response(number, b"!"))


def apis_of(talk: Conversation) -> list[str]:
    return [name for name in found_in(talk).column("api") if name != "ApiVersions"]


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("prefix", OFFERS)
def test_a_broker_is_a_vendors_by_the_keys_that_it_offers(prefix: str, version: int) -> None:
    for keys in OFFERS[prefix]:
        talk = asked(versions(conversation().open(), keys, version, 1), 501, 2)
        (name,) = apis_of(talk.close())
        assert name.startswith(prefix)


def test_the_same_key_is_another_api_at_another_vendor() -> None:
    for keys, vendor in ((AUTOMQ_BROKER, AUTOMQ), (INKLESS_BROKER, INKLESS)):
        talk = versions(conversation().open(), keys, 4, 1)
        for number, key in enumerate((501, 502), 2):
            talk = asked(talk, key, number)
        own = VENDOR_APIS[vendor]
        assert [name.partition("-")[2] for name in apis_of(talk.close())] == [own[501], own[502]]


def test_without_an_answer_to_api_versions_the_name_is_the_number() -> None:
    assert apis_of(asked(conversation().open(), 501, 1).close()) == ["api-501"]
    middle = asked(asked(conversation(), 501, 1), 502, 2)
    assert apis_of(middle) == ["api-501", "api-502"]


def test_vendor_name_applies_to_requests_after_api_versions_only() -> None:
    talk = asked(conversation().open(), 501, 1)
    talk = asked(versions(talk, AUTOMQ_BROKER, 3, 2), 501, 3)
    assert apis_of(talk.close()) == ["api-501", "AutoMQ-CreateStreams"]


def test_the_last_answer_counts_and_one_with_an_error_does_not() -> None:
    talk = versions(conversation().open(), AUTOMQ_BROKER, 4, 1)
    talk = talk.client(request("ApiVersions", 4, 2))
    refused = struct.pack(">hi", 35, 0)
    talk = talk.broker(response("ApiVersions", 4, 2, body=refused))
    talk = asked(talk, 501, 3)
    talk = asked(versions(talk, APACHE, 4, 4), 501, 5)
    talk = asked(versions(talk, INKLESS_BROKER, 0, 6), 501, 7)
    assert apis_of(talk.close()) == [
        "AutoMQ-CreateStreams", "api-501", "Inkless-AlterDisklessSwitch",
    ]  # fmt: skip


def test_api_key_column_is_independent_of_the_name() -> None:
    talk = asked(versions(conversation().open(), AUTOMQ_BROKER, 4, 1), 601, 2).close()
    found = found_in(talk)
    columns = ("api_key", "api", "decode_status", "error")
    assert found.columns(*columns)[1:] == [(601, "AutoMQ-DescribeStreams", "unknown-api", None)]
    assert found.columns("api_key", "api", table="bodies")[1:] == [(601, "AutoMQ-DescribeStreams")]


def test_a_request_that_waits_has_the_name_too() -> None:
    talk = versions(conversation().open(), INKLESS_BROKER, 4, 1)
    (_, waiting) = found_in(talk.client(raw_request(502, 0, 2))).exchanges
    assert waits_of(waiting, 1).api == "Inkless-RepairDisklessLog"


def test_the_library_gives_the_name(tmp_path: Path) -> None:
    path = tmp_path / "talk.pcap"
    path.write_bytes(
        asked(versions(conversation().open(), AUTOMQ_BROKER, 4, 1), 512, 2).close().pcap()
    )
    assert [one.api for one in kdissect.dissect(str(path))] == [
        "ApiVersions", "AutoMQ-TrimStreams",
    ]  # fmt: skip


@pytest.mark.parametrize("version", range(6))
def test_keys_are_found_as_the_whole_decode_finds_them(version: int) -> None:
    seed = random.randrange(1 << 32)
    source = random.Random(seed)
    for _ in range(200):
        keys = source.sample(range(0x8000), source.randrange(40))
        body = make_body("ApiVersions", version, "response", offer(keys))
        expected = [key for key in keys if key > 255]
        assert keys_above(b"1234" + body, 4, version) == expected, f"seed {seed}"
        cut = body[: source.randrange(len(body))]
        found = keys_above(cut, 0, version)
        assert found is None or set(found) <= set(keys), f"seed {seed}"


def test_a_vendor_needs_all_that_it_offers() -> None:
    for keys in ([501], [500], [502, 503], range(501, 512), [500, 502], range(500, 503 + 1)):
        assert vendor_of([*APACHE, *keys]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("opened", [True, False], ids=["opened", "middle"])
def test_a_capture_in_pieces_gives_the_names_of_the_whole(opened: bool, tmp_path: Path) -> None:
    """At each cut the next split does not know whose the broker is, or learns it again."""
    talk = conversation().open() if opened else conversation()
    number = 0
    for keys in (AUTOMQ_BROKER, INKLESS_BROKER, APACHE):
        for key in (501, 502, 501):
            number += 1
            talk = asked(talk, key, number)
            number += 1
            talk = talk.client(request("Heartbeat", 4, number))
            talk = talk.broker(response("Heartbeat", 4, number))
        number += 1
        talk = versions(talk, keys, 3, number)
    for key in (501, 502):
        number += 1
        talk = asked(talk, key, number)
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.pcap())
    options = Options(tables=("exchanges", "connections", "problems"))
    expected = whole([str(path)], options)
    assert "Inkless-AlterDisklessSwitch" in "".join(expected.tables["exchanges"])
    for size in range(200, path.stat().st_size, 170):
        assert together([str(path)], size, options)[0] == expected, f"splits of {size} bytes"
