"""API keys: names, versions, and header versions of requests and responses.

Selection of header versions (KIP-482): flexible versions have headers with a tag section, except
that an ApiVersions response never has one, so that any client can read it; ControlledShutdown v0
is the only request without a client id.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from mypy_extensions import i64

from kdissect.errors import UnknownApi
from kdissect.protocol.notation import load_file, read_index
from kdissect.protocol.specs import MAX_VERSION, Definition, parse_versions

CONTROLLED_SHUTDOWN: Final = 7
API_VERSIONS: Final = 18
NEVER: Final = 255  # no version is flexible


class ApiKey(NamedTuple):
    """Properties of one API; `first_flexible` is -1 if no version is flexible."""

    key: int
    name: str
    former_names: tuple[str, ...]
    lowest: int
    highest: int
    first_flexible: int
    listeners: tuple[str, ...]

    def knows(self, version: int) -> bool:
        """Return whether a layout for `version` exists."""
        return self.lowest <= version <= self.highest

    def definition(self) -> Definition:
        """The whole definition, read from its file on first use."""
        return load_file(f"apis/{self.name}")[self.name]


def _read_row(row: list[str]) -> ApiKey:
    versions = parse_versions(row[2], MAX_VERSION)
    return ApiKey(
        key=int(row[0]),
        name=row[1],
        former_names=tuple(row[5].split(",")) if row[5] else (),
        lowest=min(versions),
        highest=max(versions),
        first_flexible=-1 if row[3] == "none" else int(row[3]),
        listeners=tuple(row[4].split(",")),
    )


APIS: Final[dict[int, ApiKey]] = {int(row[0]): _read_row(row) for row in read_index("apis")}
_NAMES: Final[dict[str, int]] = {
    name.lower(): api.key for api in APIS.values() for name in api.former_names
} | {api.name.lower(): api.key for api in APIS.values()}
_FIRST_FLEXIBLE: Final = bytes(
    NEVER if APIS[key].first_flexible < 0 else APIS[key].first_flexible for key in sorted(APIS)
)
_HIGHEST: Final[list[int]] = [APIS[key].highest for key in sorted(APIS)]
# Vendors' forks with additional keys; several use the same keys for different APIs. A vendor is
# identified by its index here, 0 is none. The definitions of both were read:
# github.com/AutoMQ/automq and github.com/aiven/inkless, clients/src/main/resources/common/message.
VENDORS: Final = ("", "AutoMQ", "Inkless")
AUTOMQ: Final = 1
INKLESS: Final = 2
VENDOR_APIS: Final[dict[int, dict[int, str]]] = {
    AUTOMQ: {
        501: "CreateStreams", 502: "OpenStreams", 503: "CloseStreams", 504: "DeleteStreams",
        505: "PrepareS3Object", 506: "CommitStreamSetObject", 507: "CommitStreamObject",
        508: "GetOpeningStreams", 509: "GetKVs", 510: "PutKVs", 511: "DeleteKVs",
        512: "TrimStreams", 513: "RegisterNode", 514: "GetNodes", 515: "ZoneRouter",
        516: "GetPartitionSnapshot", 517: "UpdateLicense", 518: "DescribeLicense",
        519: "ExportClusterManifest", 520: "PreparePartitionHandoff", 521: "UpdateStreamArchive",
        600: "GetNextNodeId", 601: "DescribeStreams", 602: "UpdateGroup",
        603: "GetConsumerJoinAttempts",
    },
    INKLESS: {500: "InitDisklessLog", 501: "AlterDisklessSwitch", 502: "RepairDisklessLog"},
}  # fmt: skip
# Offered by every listener of AutoMQ's brokers and controllers.
AUTOMQ_OFFERS: Final = frozenset(range(501, 513))
# Inkless has 500 and 501 on controllers, 501 and 502 on brokers; no others in the range.
INKLESS_OFFERS: Final = (frozenset({500, 501}), frozenset({501, 502}), frozenset({500, 501, 502}))
VENDOR_RANGE: Final = range(500, 1000)  # keys from 10000 on are used by several vendors too
KEY_COUNT: Final[i64] = len(_FIRST_FLEXIBLE)
if sorted(APIS) != list(range(KEY_COUNT)):
    raise AssertionError("apis.tsv has holes")


def find_api(name_or_key: str | int) -> ApiKey:
    """The API of a key, a name or a former name, in any case; raises UnknownApi.

    >>> find_api("fetch").key, find_api("ListOffset").name, find_api("18").name
    (1, 'ListOffsets', 'ApiVersions')
    """
    if isinstance(name_or_key, str):
        if name_or_key.isdecimal():
            name_or_key = int(name_or_key)
        else:
            name_or_key = _NAMES.get(name_or_key.lower(), name_or_key)
    if isinstance(name_or_key, int) and name_or_key in APIS:
        return APIS[name_or_key]
    raise UnknownApi(f"unknown API {name_or_key!r}")


def api_name(key: int) -> str:
    """Name of a key, or a text with the key itself.

    Vendor APIs have no name here, see `vendor_api_name`.

    >>> api_name(3), api_name(501)
    ('Metadata', 'api-501')
    """
    api = APIS.get(key)
    return api.name if api is not None else f"api-{key}"


def vendor_api_name(vendor: int, key: int) -> str:
    """Name of a vendor's API key; such APIs have a name but no layout.

    >>> vendor_api_name(AUTOMQ, 501), vendor_api_name(INKLESS, 501), vendor_api_name(INKLESS, 503)
    ('AutoMQ-CreateStreams', 'Inkless-AlterDisklessSwitch', 'api-503')
    """
    name = VENDOR_APIS.get(vendor, {}).get(key)
    return api_name(key) if name is None else f"{VENDORS[vendor]}-{name}"


def vendor_of(offered: Iterable[int]) -> int:
    """Vendor of a broker that offers these keys in its ApiVersions response; 0 if unknown.

    >>> vendor_of(range(95)), vendor_of(range(501, 521)), vendor_of([3, 18, 501, 502])
    (0, 1, 2)
    >>> vendor_of([501]), vendor_of([501, 502, 503])
    (0, 0)
    """
    added = frozenset(key for key in offered if key in VENDOR_RANGE)
    if added >= AUTOMQ_OFFERS:
        return AUTOMQ
    return INKLESS if added in INKLESS_OFFERS else 0


def is_known(key: i64) -> bool:
    """Return whether `key` is an API of Apache Kafka."""
    return 0 <= key < KEY_COUNT


def highest_version(key: i64) -> i64:
    """The newest known version of an API; -1 for unknown keys."""
    return _HIGHEST[key] if 0 <= key < KEY_COUNT else -1


def is_flexible(key: i64, version: i64) -> bool:
    """Return whether bodies of this API version are flexible; False for unknown keys.

    Also valid for versions newer than the known ones, as in brokers.
    """
    if not 0 <= key < KEY_COUNT:
        return False
    first = i64(_FIRST_FLEXIBLE[key])
    return version >= first and first != NEVER


def request_header_version(key: i64, version: i64) -> i64:
    """0 without client id, 1 with client id, 2 with client id and tag section; 1 for unknown keys.

    >>> request_header_version(1, 11), request_header_version(1, 12), request_header_version(7, 0)
    (1, 2, 0)
    """
    if key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if is_flexible(key, version) else 1


def response_header_version(key: i64, version: i64) -> i64:
    """0 is the correlation id only, 1 adds a tag section.

    >>> response_header_version(3, 9), response_header_version(18, 3)
    (1, 0)
    """
    return 1 if key != API_VERSIONS and is_flexible(key, version) else 0
