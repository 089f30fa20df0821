"""Upgrade: clients that break on another broker release, and their requests that do.

Kafka 4.0 removed old versions of requests (KIP-896) and message formats (KIP-724). A client that
negotiates versions (ApiVersions) takes the newest that it and the broker support, so a version used
although the broker had a newer one that the new release supports too is its newest. Java clients
support the versions of the release that they name, whatever the broker made of it. Longer than
other modules: one verdict needs all rules about what a release removes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdissect.analysis import releases
from kdissect.analysis.dimensions import (
    CLIENT,
    DEFAULT_WINDOW_NS,
    check_names,
    client_option,
    with_dimensions,
)
from kdissect.analysis.fingerprints import JAVA, SAID, with_software
from kdissect.analysis.grouping import is_unanswered, listed
from kdissect.analysis.question import BY_CLIENT, TEXT, Option, Question, Summing, Tables
from kdissect.analysis.shared_columns import FIRST_REQUEST, LAST_REQUEST
from kdissect.analysis.upgrade_advice import (
    BASELINE,
    BREAKS,
    BROKER,
    DEPRECATED,
    LIBRARIES,
    LIBRDKAFKA,
    MAY_BREAK,
    OLD_FORMAT,
    VERDICTS,
    overview_of,
)
from kdissect.errors import InvalidArgument
from kdissect.messages.headers import UNSUPPORTED_VERSION
from kdissect.tables.schemas import BOOL, INT16, INT64, Column
from kdissect.text.suggestions import known_words

if TYPE_CHECKING:
    import ibis.expr.types as ir

DEFAULT_TO: Final = "4.0"
NEWEST_FORMAT: Final = 2
SURE: Final = 85  # % of confidence in a fingerprint; with less no client is reported to break
BINDING: Final = "rdkafka-v?([0-9.]+)"
PARTS: Final = 3  # of a version: major, minor, patch
PLACES: Final = 10_000

COLUMNS: Final = (
    Column("api", TEXT, "", "API"),
    Column("api_version", INT16, "", "version that the client uses"),
    Column("verdict", TEXT, "", "breaks, may break, broker (goes with the cluster), deprecated, "
           "old format"),
    Column("reason", TEXT, "", "reason for the verdict"),
    Column("oldest", INT16, "", "oldest version that the release supports; null: it lacks the API"),
    Column("software", TEXT, "", "library, see clients"),
    Column("software_version", TEXT, "", "its version, see clients"),
    Column("exchanges", INT64, "", "exchanges of this API and version"),
    Column(
        "unanswered", INT64, "",
        "exchanges without a response on connections that the broker closed first",
    ),
    Column("message_format", INT16, "", "oldest message format (magic) of their batches"),
    Column("asks_versions", BOOL, "",
        "the client negotiates versions (ApiVersions); null: not captured"),
    Column("broker_release", TEXT, "", "oldest release that its brokers may be of"),
    FIRST_REQUEST,
    LAST_REQUEST,
)  # fmt: skip
CHOICES: Final = ("client", "client_ip", "user", "broker", "connection", "capture")
BY: Final = client_option(CHOICES)
TO: Final = Option("to", TEXT, DEFAULT_TO, "Target release of the brokers.", releases.RELEASES)


def upgrade(tables: Tables, by: Sequence[str] = CLIENT, to: str = DEFAULT_TO) -> "ir.Table":
    """A row for each client, API and version that the release does not fully support."""
    import ibis

    check_names(by, CHOICES)
    if to not in TO.choices:
        raise InvalidArgument(f"no release {to!r}; {known_words(to, TO.choices)}")
    rows = with_evidence(tables, with_dimensions(tables, by, DEFAULT_WINDOW_NS), to)
    used = rows.group_by([*by, "api", "api_version"]).aggregate(
        oldest=rows.oldest.min(),
        newest=rows.newest.min(),
        deprecated=rows.deprecated.min(),
        software=listed(rows.software),
        software_version=listed(rows.software_version),
        exchanges=rows.count(),
        unanswered=(is_unanswered(rows) & rows.is_closed.coalesce(False)).sum().coalesce(0),
        message_format=rows.message_format.min(),
        asks_versions=rows.asks_versions.any(),
        is_broker=rows.is_broker.any(),
        start_seen=rows.start_seen.all().coalesce(False),
        had_newer=rows.had_newer.any().coalesce(False),
        knows_good=rows.knows_good.all().coalesce(False),
        knows_none=rows.knows_none.any().coalesce(False),
        broker_place=rows.broker_place.min(),
        first_time=rows.request_start.min(),
        last_time=rows.request_start.max(),
    )
    judged = used.mutate(rank=rank(used, to), broker_release=releases.release_at(used.broker_place))
    verdicts = [(judged.rank == place, verdict) for place, verdict in enumerate(VERDICTS)]
    found = judged.filter(judged.rank.notnull()).mutate(
        verdict=ibis.cases(*verdicts),
        reason=reason(judged, to),
        asks_versions=judged.asks_versions | judged.start_seen.ifelse(False, None),
    )
    order = ["rank", *[ibis.asc(name) for name in by], "api", "api_version"]
    return found.order_by(order).select(*by, *[column.name for column in COLUMNS])


def clients_in_all(tables: Tables, by: Sequence[str] = CLIENT, **_: str) -> "ir.Table":
    """The number of clients with any software; brokers and controllers do not count."""
    check_names(by, CHOICES)
    rows = with_dimensions(tables, by, DEFAULT_WINDOW_NS)
    known = with_software(tables, rows.filter(rows.api_version.notnull()))
    clients = known.filter(~known.is_broker).select(*by).distinct()
    return clients.aggregate(total=clients.count())


def with_evidence(tables: Tables, exchanges: "ir.Table", to: str) -> "ir.Table":
    """Exchanges with the version range of the release, and the known facts of client and broker."""
    identified = with_software(tables, exchanges.filter(exchanges.api_version.notnull()))
    joined = identified.left_join(connection_versions(tables), "connection_id").drop(
        "connection_id_right"
    )
    joined = joined.left_join(formats(tables), "exchange_id").drop("exchange_id_right")
    spoken = releases.spoken_by(to)
    columns = {
        column: releases.looked_up({one.api: getattr(one, column) for one in spoken}, joined.api)
        for column in ("oldest", "newest", "deprecated", "first_place", "current_place")
    }
    ranged = joined.mutate(**columns)
    is_old = ranged.api_version < ranged.oldest
    earliest, latest = java_releases(ranged)
    return ranged.mutate(
        had_newer=is_old & (ranged.broker_place >= ranged.first_place),
        knows_good=((earliest >= ranged.current_place) & (ranged.api_version < ranged.newest))
        | (is_old & knows_baseline(ranged, to)),
        knows_none=is_old & (latest < ranged.first_place),
    )


def java_releases(rows: "ir.Table") -> "tuple[ir.IntegerValue, ir.IntegerValue]":
    """The earliest and the latest possible release of a Java client; null when unknown."""
    text = rows.software_version
    is_java = (rows.software == JAVA) & (rows.confidence >= SURE)
    is_open = text.contains("newer")
    earliest = is_java.ifelse(releases.place_of(text), None)
    last = text.re_replace("^.* (to|or) ", "")
    latest = (is_java & ~is_open).ifelse(releases.place_of(last), None)
    return earliest, latest


def knows_baseline(rows: "ir.Table", to: str) -> "ir.BooleanValue":
    """Return whether a client declares a library that uses the versions left in 4.0."""
    import ibis

    if not releases.numbers(BASELINE) <= releases.numbers(to):
        return ibis.literal(False)
    # Bindings of librdkafka say its version behind their own.
    binding = rows.software_version.re_extract(BINDING, 1).coalesce("")
    is_binding = binding != ""
    library = is_binding.ifelse(LIBRDKAFKA, rows.software)
    numbers = is_binding.ifelse(binding, rows.software_version.re_replace(r"^v", "")).split(".")
    place = ibis.literal(0, "int64")
    for part in range(PARTS):
        number = numbers[part].re_extract("^([0-9]{1,4})", 1).try_cast("int64").coalesce(0)
        place = place * PLACES + number
    known = {name: placed(version) for name, version in LIBRARIES.items()}
    is_said = (rows.evidence == SAID) & rows.software_version.notnull()
    return (is_said & (place >= releases.looked_up(known, library))).coalesce(False)


def placed(version: tuple[int, ...]) -> int:
    """A version as one number."""
    place = 0
    for number in version:
        place = place * PLACES + number
    return place


def connection_versions(tables: Tables) -> "ir.Table":
    """For each connection: whether its client negotiates versions, and its broker's release.

    A client negotiates when it does on any connection, and does not when all its connections were
    captured completely from the start, and one of them asks for metadata: some ask for versions
    only where they do so first. A broker is as new as any response of it indicates.
    """
    known = tables["connections"]
    # A packet truncated by the snaplen still has its headers.
    is_lossy = known.missing_bytes_to_broker > known.cut_bytes_to_broker
    connections = known.select(
        "connection_id", "client_ip", "broker_ip", "broker_port",
        syn_seen=known.syn_seen & ~is_lossy.coalesce(False),
        says=known.client_software_name.notnull(),
        is_closed=is_closed_by_broker(known),
    )  # fmt: skip
    exchanges = tables["all_exchanges"]
    is_answer = (exchanges.outcome == "answered") & (
        exchanges.error_code.coalesce(0) != UNSUPPORTED_VERSION
    )
    place = releases.place_since(exchanges.api, exchanges.api_version)
    seen = exchanges.select(
        "connection_id",
        asks=exchanges.api == "ApiVersions",
        learns=exchanges.api == "Metadata",
        place=is_answer.ifelse(place, None),
        client_key=exchanges.client_id.coalesce(""),
    )
    own = seen.group_by("connection_id").aggregate(
        asks=seen.asks.any(),
        learns=seen.learns.any(),
        place=seen.place.max(),
        client_key=seen.client_key.max(),
    )
    both = connections.inner_join(own, "connection_id")
    client = ["client_key", "client_ip"]
    return both.mutate(
        asks_versions=(both.asks | both.says).any().over(group_by=client),
        start_seen=both.syn_seen.coalesce(False).all().over(group_by=client)
        & both.learns.any().over(group_by=client),
        broker_place=both.place.max().over(group_by=["broker_ip", "broker_port"]),
    ).select("connection_id", "start_seen", "asks_versions", "broker_place", "is_closed")


def is_closed_by_broker(connections: "ir.Table") -> "ir.BooleanValue":
    """Return whether the broker was the first to close, which one direction alone does not show."""
    is_both_ways = (connections.packets_to_broker > 0) & (connections.packets_to_client > 0)
    return ((connections.ended_by == "broker") & is_both_ways).coalesce(False)


def formats(tables: Tables) -> "ir.Table":
    """The oldest format of the batches in an exchange."""
    batches = tables["batches"]
    return batches.group_by("exchange_id").aggregate(message_format=batches.magic.min())


def rank(used: "ir.Table", to: str) -> "ir.IntegerValue":
    """The index in `VERDICTS`; null when supported."""
    import ibis

    is_old = used.oldest.isnull() | (used.api_version < used.oldest)
    is_new = (used.api_version > used.newest).coalesce(False)
    knows_no_better = used.had_newer | used.knows_none | (~used.asks_versions & used.start_seen)
    is_written = (used.api == "Produce") & writes_old(used, to)
    is_gone = is_old | is_written
    is_fine = used.is_broker | (used.knows_good & ~used.had_newer)
    cases = [
        (used.is_broker & is_gone, BROKER),
        (is_fine, None),
        (used.oldest.isnull() & ~used.asks_versions, BREAKS),
        (is_gone & knows_no_better, BREAKS),
        (is_gone, MAY_BREAK),
        (is_new & ~used.asks_versions & used.start_seen, MAY_BREAK),
        (used.api_version <= used.deprecated, DEPRECATED),
        ((used.api == "Fetch") & writes_old(used, to), OLD_FORMAT),
    ]
    place: ir.IntegerValue = ibis.cases(
        *[(found, VERDICTS.index(name) if name else None) for found, name in cases], else_=None
    )
    return place


def writes_old(used: "ir.Table", to: str) -> "ir.BooleanValue":
    """Return whether batches have a format that the release supports only in old segments."""
    import ibis

    if releases.numbers(to) < releases.numbers(releases.ONE_FORMAT):
        return ibis.literal(False)
    return (used.message_format < NEWEST_FORMAT).coalesce(False)


def reason(judged: "ir.Table", to: str) -> "ir.StringValue":
    """The reason in words."""
    import ibis

    version = judged.api + " " + judged.api_version.cast("string")
    form = judged.message_format.cast("string")
    oldest = judged.oldest.cast("string")
    is_written = (judged.api == "Produce") & writes_old(judged, to)
    what = ibis.cases(
        (judged.oldest.isnull(), to + " has no " + judged.api),
        (judged.api_version < judged.oldest,
         version + f" is not in {to}, which begins at " + oldest),
        (is_written, f"{to} takes no message format " + form),
        (judged.api_version > judged.newest, version + f" is too new for {to}"),
        (judged.api_version <= judged.deprecated, version + " is deprecated, a later release may "
         "take it out"),
        else_="reads message format " + form + f", which {to} keeps only in old segments",
    )  # fmt: skip
    how = ibis.cases(
        (judged.is_broker, "; upgraded with the cluster"),
        (judged.rank > VERDICTS.index(MAY_BREAK), ""),
        (judged.had_newer, "; its broker has a newer one that the client did not take"),
        (judged.knows_none, "; its release knows no newer one"),
        (judged.oldest.isnull() & judged.asks_versions, "; it asks for versions, so it may do "
         "without"),
        (judged.asks_versions, "; it asks for versions and its broker is not known to have a newer"
         " one, so it may know one"),
        (judged.start_seen, "; it does not ask for versions"),
        else_="; whether it asks for versions was not seen",
    )  # fmt: skip
    also = (is_written & (judged.api_version < judged.oldest)).ifelse(
        "; writes message format " + form, ""
    )
    return what + also.coalesce("") + how


QUESTION: Final = Question(
    "upgrade",
    "Which clients break on another release of the brokers?",
    ("connections", "exchanges", "batches", "all_exchanges"),
    COLUMNS,
    upgrade,
    (BY, TO),
    (
        "kdissect upgrade broker.pcap",
        "kdissect upgrade broker.pcap --to 4.0 --columns client_id,api,api_version,reason",
        "kdissect upgrade broker.pcap --to 2.8 --by sasl_user",
    ),
    bucketed_by=BY_CLIENT,
    bucketed_if_by=CLIENT[:1],
    severities=("verdict", {BREAKS: "problem", MAY_BREAK: "warning"}),
    summing=Summing(clients_in_all, overview_of, "clients"),
)
