"""Logging in: PLAIN, SCRAM, OAUTHBEARER, both handshakes, failures, re-authentication, tokens."""

import base64
import json
import time
from typing import Any

from tools.record.agents import parse_library
from tools.record.configuration import KRAFT, SECURITY, USERS, Layout, mechanisms
from tools.record.recording import Stage
from tools.record.releases import Release
from tools.record.scenarios.basics import coffees, settings_of, short_name
from tools.record.scenarios.broker_properties import SMALL_SINGLE_BROKER

LAYOUT = Layout(has_sasl=True)
TOPIC = "secrets"
USER = "alice"
WRONG = "wrong-password"
SESSION_SECONDS = 3.0
HOUR_SECONDS = 3600.0
EXPIRED_SECONDS = -60.0  # more than the clocks may differ
TOKEN_SECONDS = 1.0  # until the broker has a new token from its controller
FIRST_WITH_SCRAM_IN_FORMAT = (3, 5)
FIRST_WITH_SCRAM_REQUESTS = (2, 7)
FIRST_WITH_HANDSHAKE_1 = (1, 0)
FIRST_WITH_REAUTHENTICATION = (2, 2)
# The mechanisms that each library uses here.
SPOKEN: dict[str, tuple[str, ...]] = {
    "java": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "librdkafka": ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"),
    "kafka_python": ("PLAIN", "OAUTHBEARER", "SCRAM-SHA-256"),
    "kafka_python@1.4.7": ("PLAIN",),
    "sarama": ("PLAIN", "PLAIN by handshake 0"),
    "franz": ("PLAIN", "SCRAM-SHA-256"),
}


def properties_of(release: Release, _: str) -> dict[str, str]:
    """Sessions end soon where clients can log in again."""
    properties = dict(SMALL_SINGLE_BROKER)
    if release.number >= FIRST_WITH_REAUTHENTICATION:
        properties["connections.max.reauth.ms"] = str(int(SESSION_SECONDS * 1000))
    return properties


def play(stage: Stage) -> None:
    """Each client with each mechanism; then the failures and the second login of the first."""
    prepare(stage)
    known = mechanisms(stage.options.release)
    number = 0
    for library in stage.options.clients:
        spoken = SPOKEN.get(library, SPOKEN[parse_library(library).name])
        for mechanism in spoken:
            needs_new = library == "sarama" and mechanism == "PLAIN"
            is_possible = not needs_new or stage.options.release.number >= FIRST_WITH_HANDSHAKE_1
            if mechanism.split()[0] in known and is_possible:
                log_in(stage, library, mechanism, number)
                number += 10
    fail(stage)
    if stage.options.clients[0].startswith("java"):
        stay(stage, stage.options.clients[0])


def prepare(stage: Stage) -> None:
    """The topic, and users that SCRAM knows, behind the scenes."""
    release, cluster = stage.options.release, stage.cluster
    if release.number >= FIRST_WITH_SCRAM_REQUESTS:
        stage.prepare("create_topics", topics=[{"name": TOPIC, "partitions": 2}])
    else:
        stage.create_topics("admin-java", [{"name": TOPIC, "partitions": 2}])
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        for user, password in USERS.items():
            if release.number >= FIRST_WITH_SCRAM_REQUESTS and (
                stage.options.cluster_mode != KRAFT or release.number >= FIRST_WITH_SCRAM_IN_FORMAT
            ):
                login = {"user": user, "password": password, "mechanism": mechanism}
                stage.prepare("set_password", **login)
            elif stage.options.cluster_mode != KRAFT:
                cluster.run(
                    *("kafka.admin.ConfigCommand", "--zookeeper", cluster.zookeeper_address),
                    *("--alter", "--entity-type", "users", "--entity-name", user),
                    *("--add-config", f"{mechanism}=[iterations=4096,password={password}]"),
                )


def log_in(stage: Stage, library: str, mechanism: str, first: int) -> None:
    """A producer that logs in, and a reader."""
    settings = settings_of(library, stage.options.release)
    settings |= login_settings(library, mechanism, USERS[USER])
    client = f"{short_name(library)}-{mechanism.replace(' ', '-').lower()}"
    stage.call(library, "open_producer", client, idempotent=False, acks="1", settings=settings)
    has_headers = stage.options.release.number >= (0, 11)
    stage.call(library, "produce", client, records=coffees(TOPIC, first, has_headers))
    stage.call(library, "close", client)


def fail(stage: Stage) -> None:
    """Rejected logins: wrong passwords, a token without a subject, an expired one."""
    library = stage.options.clients[0]
    if not library.startswith("java"):
        return
    impatient = {"max.block.ms": 1500, "delivery.timeout.ms": 1500, "request.timeout.ms": 1000}
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"):
        settings = impatient | login_settings(library, mechanism, WRONG, user="mallory")
        client = f"{short_name(library)}-wrong-{mechanism.lower()}"
        stage.call(library, "open_producer", client, idempotent=False, settings=settings)
        stage.call(library, "produce", client, records=coffees(TOPIC, 900, False)[:1])
        stage.call(library, "close", client)
    for library in stage.options.clients:
        if parse_library(library).name == "kafka_python":
            settings = login_settings(library, "OAUTHBEARER", "") | {"max_block_ms": 1500}
            settings["token"] = unsecured_token("mallory", EXPIRED_SECONDS)
            client = f"{short_name(library)}-expired-oauthbearer"
            stage.call(library, "open_producer", client, idempotent=False, settings=settings)


def stay(stage: Stage, library: str) -> None:
    """A producer that works for longer than its session lasts."""
    client = f"{short_name(library)}-stays"
    settings = login_settings(library, "PLAIN", USERS[USER])
    stage.call(library, "open_producer", client, idempotent=False, settings=settings)
    for turn in range(6):
        records = coffees(TOPIC, 700 + turn * 10, has_headers=False)
        stage.call(library, "produce", client, records=records)
        time.sleep(SESSION_SECONDS / 3)
    stage.call(library, "close", client)


def login_settings(
    library: str, mechanism: str, password: str, user: str = USER, more: str = ""
) -> dict[str, Any]:
    """Login options of a library."""
    name = parse_library(library).name
    protocol = "SASL_PLAINTEXT"
    if name == "java":
        return {
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas(mechanism, user, password) + more + ";",
        }
    if name == "librdkafka":
        login = {"sasl.username": user, "sasl.password": password}
        if mechanism == "OAUTHBEARER":
            login = {"enable.sasl.oauthbearer.unsecure.jwt": "true"}
            login |= {"sasl.oauthbearer.config": f"principal={user}"}
        return {"security.protocol": protocol, "sasl.mechanism": mechanism, **login}
    if name == "kafka_python":
        login = {"sasl_plain_username": user, "sasl_plain_password": password}
        if mechanism == "OAUTHBEARER":
            login = {"token": unsecured_token(user)}
        return {"security_protocol": protocol, "sasl_mechanism": mechanism, **login}
    login = {"mechanism": mechanism.split()[0], "user": user, "password": password}
    return login | ({"handshake": "0"} if mechanism.endswith(" 0") else {})


def jaas(mechanism: str, user: str, password: str) -> str:
    """The Java client's login module, without the final semicolon."""
    if mechanism == "OAUTHBEARER":
        module = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule"
        if password != WRONG:
            return f'{module} required unsecuredLoginStringClaim_sub="{user}"'
        claim = 'unsecuredLoginPrincipalClaimName="nick"'  # the broker wants `sub`
        return f'{module} required {claim} unsecuredLoginStringClaim_nick="{user}"'
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'{SECURITY}.{module} required username="{user}" password="{password}"'


def unsecured_token(user: str, lifetime_seconds: float = HOUR_SECONDS) -> str:
    """A JSON web token without a signature, made an hour before it expires."""
    expiry = time.time() + lifetime_seconds
    parts = ({"alg": "none"}, {"sub": user, "iat": expiry - HOUR_SECONDS, "exp": expiry})
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts)
    return ".".join(text.rstrip("=") for text in texts) + "."


def play_tokens(stage: Stage) -> None:
    """A delegation token: made, shown, renewed, logged in with, expired."""
    prepare(stage)
    admin = "admin-alice"
    settings = login_settings("java", "SCRAM-SHA-256", USERS[USER])
    made = stage.call("java", "create_token", admin, settings=settings).result
    time.sleep(TOKEN_SECONDS)
    stage.call("java", "describe_tokens", admin, settings=settings)
    stage.call("java", "renew_token", admin, settings=settings)
    by_token = login_settings(
        *("java", "SCRAM-SHA-256", made["hmac"], made["token_id"]), more=' tokenauth="true"'
    )
    stage.call("java", "open_producer", "token-bearer", idempotent=False, settings=by_token)
    stage.call("java", "produce", "token-bearer", records=coffees(TOPIC, 0, has_headers=True))
    stage.call("java", "close", "token-bearer")
    stage.call("java", "expire_token", admin, settings=settings)
    stage.call("java", "renew_token", admin, settings=settings)
    stage.call("java", "close", admin)
