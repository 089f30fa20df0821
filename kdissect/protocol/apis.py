"""The API keys: names, versions, and which header version a request or response carries.

Selection of header versions (KIP-482): flexible versions have headers with a tag section, except
that an ApiVersions response never has one, so that any client can read it; ControlledShutdown v0
is the only request without a client id.
"""

from typing import Final, NamedTuple

from mypy_extensions import i64

from kdissect.errors import UnknownApi
from kdissect.protocol.notation import load_file, read_index
from kdissect.protocol.specs import MAX_VERSION, Definition, parse_versions

CONTROLLED_SHUTDOWN: Final = 7
API_VERSIONS: Final = 18
NEVER: Final = 1 << 15  # a first flexible version that no int16 version reaches


class ApiKey(NamedTuple):
    """What is known of one API; `first_flexible` is -1 when no version is flexible."""

    key: int
    name: str
    former_names: tuple[str, ...]
    lowest: int
    highest: int
    first_flexible: int
    listeners: tuple[str, ...]

    def knows(self, version: int) -> bool:
        """Whether there is a layout for `version`."""
        return self.lowest <= version <= self.highest

    def definition(self) -> Definition:
        """The whole definition, read from its file the first time."""
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
_FIRST_FLEXIBLE: Final[list[int]] = [
    NEVER if APIS[key].first_flexible < 0 else APIS[key].first_flexible for key in sorted(APIS)
]
_HIGHEST: Final[list[int]] = [APIS[key].highest for key in sorted(APIS)]
# Of AutoMQ, a fork that adds to Apache's keys.
VENDOR_APIS: Final[dict[int, str]] = {
    501: "AutoMQ-CreateStreams", 502: "AutoMQ-OpenStreams", 503: "AutoMQ-CloseStreams",
    504: "AutoMQ-DeleteStreams", 505: "AutoMQ-PrepareS3Object",
    506: "AutoMQ-CommitStreamSetObject", 507: "AutoMQ-CommitStreamObject",
    508: "AutoMQ-GetOpeningStreams", 509: "AutoMQ-GetKVs", 510: "AutoMQ-PutKVs",
    511: "AutoMQ-DeleteKVs", 512: "AutoMQ-TrimStreams", 513: "AutoMQ-RegisterNode",
    514: "AutoMQ-GetNodes", 515: "AutoMQ-ZoneRouter",
    516: "AutoMQ-GetPartitionSnapshot", 517: "AutoMQ-UpdateLicense",
    518: "AutoMQ-DescribeLicense", 519: "AutoMQ-ExportClusterManifest",
    520: "AutoMQ-PreparePartitionHandoff", 600: "AutoMQ-GetNextNodeId",
    601: "AutoMQ-DescribeStreams", 602: "AutoMQ-UpdateGroup",
}  # fmt: skip
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
    """The name of a key, or the key itself in words.

    Vendors' own APIs have a name and no layout.

    >>> api_name(3), api_name(501), api_name(4000)
    ('Metadata', 'AutoMQ-CreateStreams', 'api-4000')
    """
    api = APIS.get(key)
    return api.name if api is not None else VENDOR_APIS.get(key, f"api-{key}")


def is_known(key: i64) -> bool:
    """Whether `key` is an API of Apache Kafka."""
    return 0 <= key < KEY_COUNT


def highest_version(key: i64) -> i64:
    """The newest version known of an API; -1 for unknown keys."""
    return _HIGHEST[key] if 0 <= key < KEY_COUNT else -1


def is_flexible(key: i64, version: i64) -> bool:
    """Whether bodies of this API version are flexible; False for unknown keys.

    Holds for versions newer than the known ones too, as brokers do it.
    """
    return 0 <= key < KEY_COUNT and version >= _FIRST_FLEXIBLE[key]


def request_header_version(key: i64, version: i64) -> i64:
    """0 without client id, 1 with it, 2 with a tag section too; 1 for unknown keys.

    >>> request_header_version(1, 11), request_header_version(1, 12), request_header_version(7, 0)
    (1, 2, 0)
    """
    if key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if is_flexible(key, version) else 1


def response_header_version(key: i64, version: i64) -> i64:
    """0 is the correlation id alone, 1 has a tag section too.

    >>> response_header_version(3, 9), response_header_version(18, 3)
    (1, 0)
    """
    return 1 if key != API_VERSIONS and is_flexible(key, version) else 0
