import doctest

import pytest

from kdissect.errors import UnknownApi
from kdissect.protocol import apis, error_codes


def test_doctests_hold() -> None:
    assert doctest.testmod(apis).failed == 0
    assert doctest.testmod(error_codes).failed == 0


def test_all_keys_from_0_to_94_are_known() -> None:
    assert sorted(apis.APIS) == list(range(95))
    assert [apis.is_known(key) for key in (-1, 0, 94, 95)] == [False, True, True, False]


def test_there_are_368_versions_of_apis() -> None:
    assert sum(api.highest - api.lowest + 1 for api in apis.APIS.values()) == 368


def test_only_two_apis_never_became_flexible() -> None:
    never = [api.name for api in apis.APIS.values() if api.first_flexible < 0]
    assert never == ["SaslHandshake", "OffsetDelete"]


@pytest.mark.parametrize(
    ("name", "version", "request_version", "response_version"),
    [
        ("Fetch", 0, 1, 0), ("Fetch", 11, 1, 0), ("Fetch", 12, 2, 1), ("Fetch", 99, 2, 1),
        ("ControlledShutdown", 0, 0, 0), ("ControlledShutdown", 1, 1, 0),
        ("ControlledShutdown", 3, 2, 1), ("ApiVersions", 2, 1, 0), ("ApiVersions", 3, 2, 0),
        ("ApiVersions", 5, 2, 0), ("SaslHandshake", 1, 1, 0), ("OffsetDelete", 9, 1, 0),
        ("ConsumerGroupHeartbeat", 0, 2, 1),
    ],
)  # fmt: skip
def test_header_versions_follow_flexibility_but_for_the_exceptions(
    name: str, version: int, request_version: int, response_version: int
) -> None:
    key = apis.find_api(name).key
    assert apis.request_header_version(key, version) == request_version
    assert apis.response_header_version(key, version) == response_version


def test_unknown_keys_have_the_header_that_any_request_in_use_has() -> None:
    for key in (-1, 95, 501, 32767, -32768):
        assert apis.request_header_version(key, 0) == 1
        assert apis.response_header_version(key, 0) == 0
        assert apis.highest_version(key) == -1


def test_former_names_are_found_in_any_case() -> None:
    found = [
        apis.find_api(name).name
        for name in ("offsets", "ConsumerMetadata", "GroupCoordinator", "AlterIsr", "74")
    ]
    assert found == [
        "ListOffsets", "FindCoordinator", "FindCoordinator", "AlterPartition",
        "ListConfigResources",
    ]  # fmt: skip


def test_an_unknown_api_is_named_in_the_error() -> None:
    for name in ("Nothing", 95, "95", -1):
        with pytest.raises(UnknownApi, match="unknown API"):
            apis.find_api(name)


def test_all_error_codes_are_known_from_minus_one_on() -> None:
    codes = error_codes.error_codes()
    assert sorted(codes) == list(range(-1, 137))
    assert codes[0] == error_codes.ErrorCode(0, "NONE", False)
    assert codes[6] == error_codes.ErrorCode(6, "NOT_LEADER_OR_FOLLOWER", True)
    assert len({code.name for code in codes.values()}) == 138
    assert [error_codes.is_retriable(code) for code in (7, 35, 4711)] == [True, False, False]
