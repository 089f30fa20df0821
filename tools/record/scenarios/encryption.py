"""TLS: every client with suites of its own, sessions resumed and rekeyed, SASL behind TLS."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tools.record.agents import parse_library
from tools.record.configuration import USERS, Layout
from tools.record.recording import Stage
from tools.record.releases import Release
from tools.record.scenarios.basics import PARTITIONS, RECORDS, coffees, short_name
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER
from tools.record.scenarios.security import USER, WRONG, jaas
from tools.record.tls import Tls

TOPIC = "sealed"
OPENSSL = ("librdkafka", "kafka_python", "aiokafka", "kafkajs")
REKEYED_RECORDS = 60


class Session(NamedTuple):
    """One client: the library, its version of TLS, and the suite it offers, as IANA names it."""

    library: str
    version: str
    suite: str | None = None


TLS12 = (
    Session("java", "1.2", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    Session("java", "1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    Session("java", "1.2", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
    Session("java", "1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    Session("librdkafka", "1.2", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    Session("librdkafka", "1.2", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    Session("kafka_python", "1.2", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    Session("kafka_python", "1.2", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    Session("aiokafka", "1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    Session("sarama", "1.2", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    Session("franz", "1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    Session("kafkajs", "1.2", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
)
TLS13 = (
    Session("java", "1.3", "TLS_AES_128_GCM_SHA256"),
    Session("java", "1.3", "TLS_AES_256_GCM_SHA384"),
    Session("java", "1.3", "TLS_CHACHA20_POLY1305_SHA256"),
    *(Session(library, "1.3") for library in ("librdkafka", "kafka_python", "aiokafka")),
    *(Session(library, "1.3") for library in ("sarama", "franz", "kafkajs")),
)
# Before a proxy with OpenSSL: encrypt-then-MAC with the first three, resumption with Java.
RESUMED = (
    Session("kafka_python", "1.2", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    Session("aiokafka", "1.2", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
    Session("kafkajs", "1.2", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    *(Session("java", version) for version in ("1.2", "1.3")),
)
LAYOUT = Layout(tls=Tls())
TERMINATED_LAYOUT = Layout(tls=Tls(is_terminated=True))
# Session ids in place of tickets, and a master secret as before RFC 7627.
OLD_LAYOUT = Layout(
    tls=Tls(
        (
            "-Djdk.tls.server.enableSessionTicketExtension=false",
            "-Djdk.tls.useExtendedMasterSecret=false",
        )
    )
)
REKEYED_LAYOUT = Layout(tls=Tls(bytes_a_key=4000))
CLOSED_LAYOUT = Layout(tls=Tls(has_key_log=False))
SASL_LAYOUT = Layout(tls=Tls(has_keys_inside=True), has_sasl=True)


def only_tls12(_release: Release, _mode: str) -> dict[str, str]:
    """librdkafka has no option for the version, so the broker has."""
    return SMALL_SINGLE_BROKER | {"ssl.enabled.protocols": "TLSv1.2"}


def play_tls12(stage: Stage) -> None:
    """Each suite; with a broker that is given clients, these, as they are."""
    given = tuple(Session(library, "1.2") for library in stage.options.clients)
    play(stage, given or TLS12)


def play_tls13(stage: Stage) -> None:
    """Each suite and library."""
    given = tuple(Session(library, "1.3") for library in stage.options.clients)
    play(stage, given or TLS13)


def play_resumed(stage: Stage) -> None:
    """Sessions that need OpenSSL on the other side."""
    play(stage, RESUMED)


def play(stage: Stage, sessions: Iterable[Session]) -> None:
    """Each produces; the first of a library then reads all that came from it."""
    prepare(stage)
    seen = set()
    for place, session in enumerate(sessions):
        library = session.library
        client = f"{short_name(library)}-{place}"
        settings = settings_of(session, stage)
        codec = ("none", "gzip")[place % 2]
        more = {"idempotent": False, "acks": "all", "settings": settings}
        stage.call(library, "open_producer", client, codec=codec, **more)
        records = coffees(TOPIC, place * RECORDS, has_headers=True)
        stage.call(library, "produce", client, records=records)
        stage.call(library, "close", client)
        if library not in seen:
            read(stage, library, f"{client}-reader", settings, (place + 1) * RECORDS)
        seen.add(library)


def play_rekeyed(stage: Stage) -> None:
    """Clients that send and are sent so much that the keys are changed many times."""
    prepare(stage)
    for place, library in enumerate(stage.options.clients):
        settings = settings_of(Session(library, "1.3"), stage)
        client = f"{short_name(library)}-{place}"
        more = {"idempotent": False, "acks": "all", "settings": settings}
        stage.call(library, "open_producer", client, **more)
        for first in range(0, REKEYED_RECORDS, RECORDS):
            records = coffees(TOPIC, first, has_headers=True)
            stage.call(library, "produce", client, records=records, each=True)
        stage.call(library, "close", client)
        wanted = (place + 1) * REKEYED_RECORDS
        read(stage, library, f"{client}-reader", settings, wanted)


def play_sasl(stage: Stage) -> None:
    """Logins behind TLS, a wrong one too."""
    prepare(stage)
    logins = (
        ("java", "PLAIN", "1.3", USERS[USER]),
        ("java", "SCRAM-SHA-512", "1.2", USERS[USER]),
        ("librdkafka", "SCRAM-SHA-256", "1.3", USERS[USER]),
        ("kafka_python", "PLAIN", "1.2", USERS[USER]),
        ("franz", "SCRAM-SHA-256", "1.3", USERS[USER]),
        ("kafkajs", "PLAIN", "1.3", USERS[USER]),
        ("java", "PLAIN", "1.3", WRONG),
    )
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        login = {"user": USER, "password": USERS[USER], "mechanism": mechanism}
        stage.prepare("set_password", **login)
    for place, (library, mechanism, version, password) in enumerate(logins):
        settings = settings_of(Session(library, version), stage)
        settings |= login_settings(library, mechanism, password)
        is_wrong = password == WRONG
        client = f"{library.replace('_', '-')}-{'wrong-' * is_wrong}{mechanism.lower()}"
        if is_wrong:
            settings |= {"max.block.ms": 1500, "delivery.timeout.ms": 1500}
            settings |= {"request.timeout.ms": 1000}
        more = {"idempotent": False, "acks": "1", "settings": settings}
        stage.call(library, "open_producer", client, **more)
        records = coffees(TOPIC, place * RECORDS, has_headers=True)
        stage.call(library, "produce", client, records=records)
        stage.call(library, "close", client)


def prepare(stage: Stage) -> None:
    """The topic, behind the scenes."""
    topic = {"name": TOPIC, "partitions": PARTITIONS}
    stage.remember(topic, stage.prepare("create_topics", topics=[topic]).result[TOPIC])


def read(stage: Stage, library: str, client: str, settings: dict[str, Any], wanted: int) -> None:
    """A group of one reads all records and commits."""
    member = {"group": f"{client}s", "topics": [TOPIC]}
    stage.call(library, "open_consumer", client, **member, settings=settings)
    stage.call(library, "poll", client, seconds=20, records=wanted)
    stage.call(library, "commit", client)
    stage.call(library, "close", client)


def settings_of(session: Session, stage: Stage) -> dict[str, Any]:
    """TLS options of a library: version and suite."""
    name = parse_library(session.library).name
    certificates, protocol = stage.cluster.certificates, stage.cluster.settings.layout.protocol
    suite = session.suite
    if suite is not None and name in OPENSSL:
        suite = openssl_name(suite)
    if name == "java":
        settings = {
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": certificates,
            "ssl.enabled.protocols": f"TLSv{session.version}",
        }
        return settings | ({"ssl.cipher.suites": suite} if suite else {})
    if name == "librdkafka":
        settings = {"security.protocol": protocol, "ssl.ca.pem": certificates}
        return settings | ({"ssl.cipher.suites": suite} if suite else {})
    settings = {"tls_ca": certificates, "tls_version": session.version}
    if name in ("kafka_python", "aiokafka"):
        settings["security_protocol"] = protocol
    if name == "sarama":
        settings["version"] = stage.options.release.version
    return settings | ({"tls_ciphers": suite} if suite else {})


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2: ECDHE-RSA-AES128-GCM-SHA256."""
    words = suite.removeprefix("TLS_").replace("_WITH", "")
    words = words.replace("POLY1305_SHA256", "POLY1305").replace("_CBC", "")
    return words.replace("AES_", "AES").replace("_", "-")


def login_settings(library: str, mechanism: str, password: str) -> dict[str, Any]:
    """The part of the settings that is about SASL."""
    if library == "java":
        module = jaas(mechanism, USER, password) + ";"
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": module}
    if library == "librdkafka":
        login = {"sasl.username": USER, "sasl.password": password}
        return {"sasl.mechanism": mechanism, **login}
    if library == "kafka_python":
        login = {"sasl_plain_username": USER, "sasl_plain_password": password}
        return {"sasl_mechanism": mechanism, **login}
    return {"mechanism": mechanism, "user": USER, "password": password}
