"""Conversations with every kind of credential: in messages as they should be, cut, and unknown."""

import base64
import dataclasses
import json
import uuid
from collections.abc import Callable
from typing import Any

from tests.conversation import Conversation, conversation
from tests.exchange_builders import request, response, sized
from tests.messages.record_builders import make_batch, make_record

PASSWORD = b"hunter2-the-password"
JAAS = b'PlainLoginModule required password="jaas-secret";'
KEYSTORE = b"keystore-secret-value"
# Of plugins and vendors: neither Kafka nor the broker marks them as passwords.
UNKNOWN_CONFIGS = {
    "azure.storage.key": b"azure-account-key", "basic.auth.user.info": b"registry:registry-login",
    "pwd": b"short-for-it", "encryption.key": b"the-encryption-key",
}  # fmt: skip
SYNONYM = b"default-keystore-secret"
HMAC = bytes(range(200, 232))
SALT = bytes(range(130, 150))
SALTED = bytes(range(160, 192))
STORED_KEY = bytes(range(20, 52))
SERVER_KEY = b"\xf0server-key-of-the-log"
CLAIMS = base64.urlsafe_b64encode(json.dumps({"sub": "carol", "pin": "0815"}).encode()).rstrip(b"=")
TOKEN = b"eyJhbGciOiJub25lIn0." + CLAIMS + b".the-signature"
PROOF = b"proof-of-the-client="
VERIFIER = b"signature-of-the-broker="
KERBEROS = b"\x60\x82\x01kerberos-ticket-of-bob"
PRINCIPAL = b"\xff\xffprincipal-of-a-custom-builder"
PREVIEW_KEY = b"preview-salted-password"
ANSWER_HMAC = b"\xabhmac-in-the-answer\xcd"
SECRETS = (
    PASSWORD, b"jaas-secret", KEYSTORE, SYNONYM, HMAC, SALT, SALTED, STORED_KEY, SERVER_KEY, TOKEN,
    CLAIMS, PROOF, VERIFIER, KERBEROS, PRINCIPAL, PREVIEW_KEY, ANSWER_HMAC,
    *UNKNOWN_CONFIGS.values(),
)  # fmt: skip

METADATA = "__cluster_metadata"
CONFIGS = [
    {"name": "sasl.jaas.config", "value": JAAS.decode()},
    {"name": "listener.name.x.ssl.keystore.password", "value": KEYSTORE.decode()},
    {"name": "retention.ms", "value": "1"},
    *({"name": name, "value": value.decode()} for name, value in UNKNOWN_CONFIGS.items()),
]
DESCRIBED = [
    {"name": "strange.config", "value": KEYSTORE.decode(), "is_sensitive": True,
     "synonyms": [{"name": "unheard.of", "value": SYNONYM.decode()}]},
    *({"name": name, "value": value.decode()} for name, value in UNKNOWN_CONFIGS.items()),
]  # fmt: skip
SCRAM_USER = {"name": "bob", "salt": SALT, "salted_password": SALTED}
PLAIN = b"\0alice\0" + PASSWORD
BEARER = b"n,,\x01auth=Bearer " + TOKEN + b"\x01\x01"

Message = tuple[str, int, str, dict[str, Any]]
Change = Callable[[bytes, bool], bytes]


def metadata_records() -> bytes:
    """Records of the KRaft log: SCRAM credentials, a config; of 2.8, and of an unknown type."""
    scram = b"\x01\x0b\x00\x04bob\x01" + compact(SALT) + compact(STORED_KEY) + compact(SERVER_KEY)
    config = b"\x01\x04\x00\x04\x02" + compact(b"1") + compact(b"sasl.jaas.config") + compact(JAAS)
    preview = b"\x00\x0b\x00\x00\x03bob\x00\x00\x00\x01\x01" + long(SALT) + long(PREVIEW_KEY)
    values = [
        scram + b"\x00\x00\x10\x00\x00", config + b"\x00", preview + b"\x00\x00\x10\x00",
        b"\x01\x7d\x00" + SERVER_KEY, scram[:40],
    ]  # fmt: skip
    records = [make_record(offset_delta=i, value=value) for i, value in enumerate(values)]
    return make_batch(records) + make_batch(records, codec=1)


def compact(content: bytes) -> bytes:
    return bytes([len(content) + 1]) + content


def long(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def messages() -> list[Message]:
    """API, version, side and values of bodies with credentials."""
    resources = [{"resource_type": 4, "resource_name": "1", "configs": CONFIGS}]
    topics = [{"name": "t", "configs": CONFIGS}]
    log = {"partitions": [{"records": metadata_records()}]}
    first = {"name": METADATA, "partitions": [{"unaligned_records": metadata_records()}]}
    later = {"unaligned_records": metadata_records(), "position": 7}
    return [
        ("SaslAuthenticate", 2, "request", {"auth_bytes": PLAIN}),
        ("SaslAuthenticate", 2, "response", {"auth_bytes": b"v=" + VERIFIER}),
        ("AlterUserScramCredentials", 0, "request", {"upsertions": [SCRAM_USER]}),
        ("CreateDelegationToken", 3, "response", {"hmac": HMAC}),
        ("RenewDelegationToken", 2, "request", {"hmac": HMAC}),
        ("ExpireDelegationToken", 2, "request", {"hmac": HMAC}),
        ("DescribeDelegationToken", 3, "response", {"tokens": [{"hmac": HMAC}]}),
        ("AlterConfigs", 2, "request", {"resources": resources}),
        ("IncrementalAlterConfigs", 1, "request", {"resources": resources}),
        ("DescribeConfigs", 4, "response", {"results": [{"configs": DESCRIBED}]}),
        ("CreateTopics", 7, "request", {"topics": topics}),
        ("CreateTopics", 7, "response", {"topics": topics}),
        ("Fetch", 12, "response", {"responses": [{"topic": METADATA} | log]}),
        ("Fetch", 17, "response", {"responses": [{"topic_id": uuid.UUID(int=1)} | log]}),
        ("FetchSnapshot", 1, "response", {"topics": [first]}),
        ("FetchSnapshot", 1, "response", {"topics": [{"name": METADATA, "partitions": [later]}]}),
        *forwarded(),
    ]  # fmt: skip


def forwarded() -> list[Message]:
    """Requests in Envelopes, and principals; then their undecodable parts."""
    inner = request("AlterUserScramCredentials", 0, 7, upsertions=[SCRAM_USER])[4:]
    principal = PRINCIPAL
    asked = {"request_principal": principal, "client_host_address": bytes(4)}
    return [
        ("Envelope", 0, "request", {"request_data": inner} | asked),
        ("Envelope", 0, "request", {"request_data": inner[:-3]} | asked),
        ("Envelope", 0, "request", {"request_data": b"\x03\xe7" + PASSWORD} | asked),
        ("Envelope", 0, "response", {"response_data": b"\0\0\0\7" + ANSWER_HMAC}),
    ]


def secret_talks() -> Conversation:
    """One connection after the other, each from a port of its own."""
    talks = [logins(), raw_tokens(), kerberos(), late_start(), bearer()]
    talks += [said(number, change) for number, change in enumerate(CHANGES, len(talks))]
    packets = tuple(sent for talk in talks for sent in talk.packets_sent)
    return dataclasses.replace(talks[0], packets_sent=packets)


def opened(number: int) -> Conversation:
    """A connection that reuses the port of the one before."""
    return dataclasses.replace(
        conversation(), client_isn=1000 + number * 100_000_000, broker_isn=7_000 + number
    ).open()


def logins() -> Conversation:
    talk = opened(0).client(request("SaslHandshake", 1, 1, mechanism="SCRAM-SHA-256"))
    talk = talk.broker(response("SaslHandshake", 1, 1))
    final = b"c=biws,r=nonce,p=" + PROOF
    talk = talk.client(request("SaslAuthenticate", 2, 2, auth_bytes=final))
    return talk.broker(response("SaslAuthenticate", 2, 2, auth_bytes=b"v=" + VERIFIER)).close()


def raw_tokens() -> Conversation:
    talk = opened(1).client(request("SaslHandshake", 0, 1, mechanism="PLAIN"))
    talk = talk.broker(response("SaslHandshake", 0, 1))
    return talk.client(sized(PLAIN)).broker(sized(b"")).close()


def kerberos() -> Conversation:
    return opened(2).client(sized(KERBEROS)).broker(sized(KERBEROS)).close()


def late_start() -> Conversation:
    """The handshake was before the capture: tokens that nothing announced."""
    talk = opened(3).client(sized(PLAIN)).broker(sized(b"v=" + VERIFIER))
    return talk.client(sized(BEARER)).broker(sized(b"v=" + VERIFIER)).reset()


def bearer() -> Conversation:
    talk = opened(4).client(request("SaslHandshake", 1, 1, mechanism="OAUTHBEARER"))
    talk = talk.broker(response("SaslHandshake", 1, 1))
    talk = talk.client(request("SaslAuthenticate", 1, 2, auth_bytes=BEARER))
    return talk.broker(response("SaslAuthenticate", 1, 2)).close()


def said(number: int, change: Change) -> Conversation:
    """Each message in an exchange, its frame changed; the other side answers in default values."""
    talk = opened(number)
    for correlation_id, (api, version, side, values) in enumerate(messages(), 1):
        asked = request(api, version, correlation_id, **(values if side == "request" else {}))
        answer = response(api, version, correlation_id, **(values if side == "response" else {}))
        if side == "request":
            asked = sized(change(asked[4:], True))
        else:
            answer = sized(change(answer[4:], False))
        talk = talk.client(asked).broker(answer)
    return talk.close()


def whole(frame: bytes, _: bool) -> bytes:
    return frame


def cut(frame: bytes, _: bool) -> bytes:
    """Without its last bytes: fields end too soon."""
    return frame[:-5]


def longer(frame: bytes, _: bool) -> bytes:
    """With bytes behind its last field."""
    return frame + PASSWORD


def wrong_length(frame: bytes, _: bool) -> bytes:
    """The length before a secret is too large."""
    for secret in SECRETS:
        at = frame.find(secret)
        if at > 8:
            return frame[: at - 1] + b"\x7f" + frame[at:]
    return frame


def unknown_version(frame: bytes, is_request: bool) -> bytes:
    return frame[:2] + b"\x00\x63" + frame[4:] if is_request else frame


CHANGES: tuple[Change, ...] = (whole, cut, longer, wrong_length, unknown_version)
