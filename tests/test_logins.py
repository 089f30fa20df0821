"""Logging in: mechanism, user, outcome, and that no secret comes out of the tables."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.exchanges.sasl import Login, user_of
from tests.conversation import Conversation, conversation
from tests.exchange_builders import Found, found_in, request, response, sized

SECRETS = (
    b"hunter2-secret",
    b"nonce-of-the-client",
    b"proof-of-the-client",
    b"proof-of-the-broker",
)
PLAIN_TOKEN = b"\0alice\0hunter2-secret"
SCRAM_TOKENS = (
    b"n,,n=al=2Cice=3D,r=nonce-of-the-client",
    b"c=biws,r=nonce-of-the-client+broker,p=proof-of-the-client",
)


def heartbeat(correlation_id: int) -> bytes:
    return request("Heartbeat", 4, correlation_id, group_id="workers")


def beaten(correlation_id: int) -> bytes:
    return response("Heartbeat", 4, correlation_id)


def outcomes(found: Found) -> list[tuple[Any, ...]]:
    return found.columns("correlation_id", "outcome")


def shake(mechanism: str, version: int = 0, error_code: int = 0) -> Conversation:
    talk = conversation().client(request("SaslHandshake", version, 1, mechanism=mechanism))
    fields = {"error_code": error_code, "mechanisms": ["PLAIN", "SCRAM-SHA-256"]}
    return talk.broker(response("SaslHandshake", version, 1, **fields))


def then_beats(talk: Conversation) -> Conversation:
    return talk.client(heartbeat(2)).broker(beaten(2))


def assert_no_secrets(found: Found) -> None:
    shown = repr(found.tables) + repr([vars_of(exchange) for exchange in found.exchanges])
    for secret in SECRETS:
        for form in (secret, base64.b64encode(secret), secret.hex().encode()):
            assert form.decode() not in shown


def vars_of(exchange: Any) -> list[Any]:
    return [getattr(exchange, name) for name in dir(exchange) if not name.startswith("_")]


def sasl_of(found: Found) -> list[tuple[Any, ...]]:
    names = ("sasl_mechanism", "sasl_user", "sasl_outcome", "sasl_logins", "protocol")
    return found.columns(*names, table="connections")


def test_raw_plain_tokens_tell_the_user_and_are_no_exchanges() -> None:
    talk = then_beats(shake("PLAIN").client(sized(PLAIN_TOKEN)).broker(sized(b"")))
    found = found_in(talk)
    assert found.columns("api", "outcome") == [
        ("SaslHandshake", "answered"), ("Heartbeat", "answered"),
    ]  # fmt: skip
    assert sasl_of(found) == [("PLAIN", "alice", "ok", 1, "kafka")]
    assert found.tables["problems"] == []
    assert_no_secrets(found)


def test_raw_scram_tokens_tell_the_user_and_are_no_exchanges() -> None:
    talk = shake("SCRAM-SHA-256")
    challenge = sized(b"r=nonce-of-the-client+broker,s=c2FsdA==")
    talk = talk.client(sized(SCRAM_TOKENS[0])).broker(challenge)
    talk = talk.client(sized(SCRAM_TOKENS[1])).broker(sized(b"v=proof-of-the-broker"))
    found = found_in(then_beats(talk))
    assert found.column("outcome") == ["answered", "answered"]
    assert sasl_of(found) == [("SCRAM-SHA-256", "al,ice=", "ok", 1, "kafka")]
    assert found.tables["problems"] == []
    assert_no_secrets(found)


def test_tokens_are_known_when_the_answer_to_the_handshake_was_lost() -> None:
    talk = conversation(has_acks=False)
    talk = talk.client(request("SaslHandshake", 0, 1, mechanism="PLAIN"))
    talk = talk.broker(response("SaslHandshake", 0, 1))
    talk = then_beats(talk.client(sized(PLAIN_TOKEN)).broker(sized(b"")))
    found = found_in(talk.lose(5))
    assert outcomes(found) == [(1, None), (2, "answered")]
    assert sasl_of(found) == [("PLAIN", "alice", "ok", 1, "kafka")]
    assert_no_secrets(found)


def test_after_a_refused_handshake_come_requests_again() -> None:
    talk = shake("GSSAPI", error_code=33)
    talk = talk.client(request("SaslHandshake", 0, 2, mechanism="PLAIN"))
    talk = talk.broker(response("SaslHandshake", 0, 2))
    found = found_in(talk.client(sized(PLAIN_TOKEN)).broker(sized(b"")))
    assert found.columns("correlation_id", "error") == [
        (1, "UNSUPPORTED_SASL_MECHANISM"), (2, None),
    ]  # fmt: skip
    assert sasl_of(found) == [("PLAIN", "alice", "ok", 2, "kafka")]


def test_an_authentication_that_fails_leaves_nothing_of_the_token() -> None:
    found = found_in(shake("PLAIN").client(sized(PLAIN_TOKEN)).reset(is_client=False))
    assert sasl_of(found) == [("PLAIN", "alice", "failed", 1, "kafka")]
    assert_no_secrets(found)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_sasl_authenticate_gives_the_user(version: int) -> None:
    talk = shake("PLAIN", version=1)
    talk = talk.client(request("SaslAuthenticate", version, 2, auth_bytes=PLAIN_TOKEN))
    talk = talk.broker(response("SaslAuthenticate", version, 2))
    found = found_in(then_beats(talk))
    assert found.columns("api", "outcome", "decode_status") == [
        ("SaslHandshake", "answered", "ok"), ("SaslAuthenticate", "answered", "ok"),
        ("Heartbeat", "answered", "ok"),
    ]  # fmt: skip
    assert sasl_of(found) == [("PLAIN", "alice", "ok", 1, "kafka")]
    assert_no_secrets(found)


def test_sasl_authenticate_with_scram_gives_the_user() -> None:
    talk = shake("SCRAM-SHA-512", version=1)
    for number, token in enumerate(SCRAM_TOKENS, 2):
        talk = talk.client(request("SaslAuthenticate", 2, number, auth_bytes=token))
        answer = (b"r=nonce-of-the-client+broker,s=c2FsdA==,i=9", b"v=proof-of-the-broker")
        talk = talk.broker(response("SaslAuthenticate", 2, number, auth_bytes=answer[number - 2]))
    found = found_in(talk)
    assert sasl_of(found) == [("SCRAM-SHA-512", "al,ice=", "ok", 1, "kafka")]
    assert_no_secrets(found)


def test_gssapi_without_a_handshake_is_known_by_its_first_token() -> None:
    talk = conversation().client(sized(b"\x60\x82 kerberos ticket")).broker(sized(b"\x60 answer"))
    talk = talk.client(sized(b"")).broker(sized(b"\x05\x04 wrapped"))
    found = found_in(then_beats(talk.client(sized(b"\x05\x04 wrapped")).broker(sized(b""))))
    assert outcomes(found) == [(2, "answered")]
    assert sasl_of(found) == [("GSSAPI", None, "ok", 1, "kafka")]
    assert found.tables["problems"] == []


# Outcomes


def authenticate(
    talk: Conversation, number: int, token: bytes, answer: bytes = b"", **fields: Any
) -> Conversation:
    talk = talk.client(request("SaslAuthenticate", 2, number, auth_bytes=token))
    return talk.broker(response("SaslAuthenticate", 2, number, auth_bytes=answer, **fields))


def test_a_wrong_password_is_a_failed_login() -> None:
    talk = authenticate(shake("PLAIN", 1), 2, PLAIN_TOKEN, error_code=58, error_message="no")
    found = found_in(talk.close())
    assert sasl_of(found) == [("PLAIN", "alice", "failed", 1, "kafka")]
    assert found.columns("api", "error")[1] == ("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED")
    assert_no_secrets(found)


def test_a_scram_error_is_a_failed_login() -> None:
    talk = authenticate(shake("SCRAM-SHA-256", 1), 2, SCRAM_TOKENS[0], b"r=nonce,s=c2FsdA==,i=9")
    found = found_in(authenticate(talk, 3, SCRAM_TOKENS[1], b"e=invalid-proof"))
    assert sasl_of(found) == [("SCRAM-SHA-256", "al,ice=", "failed", 1, "kafka")]


def test_a_login_that_is_not_over_has_no_outcome() -> None:
    talk = authenticate(shake("SCRAM-SHA-256", 1), 2, SCRAM_TOKENS[0], b"r=nonce,s=c2FsdA==,i=9")
    assert sasl_of(found_in(talk)) == [("SCRAM-SHA-256", "al,ice=", None, 0, "kafka")]


def test_a_raw_token_that_is_refused_ends_the_connection() -> None:
    found = found_in(shake("PLAIN").client(sized(PLAIN_TOKEN)).close())
    assert sasl_of(found) == [("PLAIN", "alice", "failed", 1, "kafka")]


def test_a_connection_without_sasl_has_no_mechanism() -> None:
    found = found_in(conversation().client(heartbeat(1)).broker(beaten(1)))
    assert sasl_of(found) == [(None, None, "none", 0, "kafka")]


def test_api_versions_before_the_login_is_no_login() -> None:
    talk = shake("PLAIN", 1)
    talk = talk.client(request("ApiVersions", 0, 7)).broker(response("ApiVersions", 0, 7))
    assert sasl_of(found_in(talk)) == [("PLAIN", None, None, 0, "kafka")]


def test_a_refused_request_before_the_login_is_no_login() -> None:
    talk = shake("GSSAPI", 1).client(heartbeat(2))
    talk = talk.broker(response("Heartbeat", 4, 2, error_code=34))
    assert sasl_of(found_in(talk)) == [("GSSAPI", None, None, 0, "kafka")]


def test_an_opaque_mechanism_went_well_when_a_request_is_served() -> None:
    talk = authenticate(shake("GSSAPI", 1), 2, b"\x60 ticket", b"\x60 answer")
    found = found_in(talk.client(heartbeat(3)).broker(beaten(3)))
    assert sasl_of(found) == [("GSSAPI", None, "ok", 1, "kafka")]


def test_a_second_login_on_a_connection_is_counted_and_may_fail() -> None:
    talk = authenticate(shake("PLAIN", 1), 2, PLAIN_TOKEN, session_lifetime_ms=3000)
    talk = talk.client(heartbeat(3)).broker(beaten(3))
    again = talk.client(request("SaslHandshake", 1, 4, mechanism="PLAIN"))
    again = again.broker(response("SaslHandshake", 1, 4, mechanisms=["PLAIN"]))
    good = authenticate(again, 5, PLAIN_TOKEN).client(heartbeat(6)).broker(beaten(6))
    assert sasl_of(found_in(good)) == [("PLAIN", "alice", "ok", 2, "kafka")]
    assert found_in(good).column("outcome") == ["answered"] * 6
    bad = authenticate(again, 5, PLAIN_TOKEN, error_code=58)
    assert sasl_of(found_in(bad)) == [("PLAIN", "alice", "failed", 2, "kafka")]


@pytest.mark.parametrize(
    ("mechanism", "tokens", "told"),
    [
        ("PLAIN", [PLAIN_TOKEN], []),
        ("PLAIN", [b"\0bob\0hunter2-secret"], ["user bob after alice"]),
        ("PLAIN", [b"?"], []),
        (
            "SCRAM-SHA-256",
            [b"n,,n=bob,r=nonce-of-the-client"],
            ["mechanism SCRAM-SHA-256 after PLAIN", "user bob after alice"],
        ),
    ],
)
@pytest.mark.parametrize("error_code", [0, 58])
def test_reauthentication_as_another_user_is_a_problem(
    mechanism: str, tokens: list[bytes], told: list[str], error_code: int
) -> None:
    talk = authenticate(shake("PLAIN", 1), 2, PLAIN_TOKEN, session_lifetime_ms=3000)
    talk = talk.client(request("SaslHandshake", 1, 4, mechanism=mechanism))
    talk = talk.broker(response("SaslHandshake", 1, 4, mechanisms=["PLAIN"]))
    for token in tokens:
        talk = authenticate(talk, 5, token, error_code=error_code)
    found = found_in(talk)
    assert found.columns("kind", "message", "exchange_id", table="problems") == [
        ("login-changed", f"a connection logs in again with {text}", found.rows[at]["exchange_id"])
        for text, at in zip(told, (2, 3) if len(told) == 2 else (3,), strict=False)
    ]
    assert_no_secrets(found)


def test_trying_another_mechanism_after_a_failed_login_is_no_problem() -> None:
    talk = authenticate(shake("PLAIN", 1), 2, PLAIN_TOKEN, error_code=58)
    talk = talk.client(request("SaslHandshake", 1, 3, mechanism="GSSAPI"))
    assert found_in(talk).tables["problems"] == []


def unsecured(claims: object) -> bytes:
    parts = [{"alg": "none"}, claims]
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join(texts) + b".hunter2-secret"


def bearer(token: bytes, header: bytes = b"n,,") -> bytes:
    return header + b"\x01auth=Bearer " + token + b"\x01\x01"


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (bearer(unsecured({"sub": "alice"})), "alice"),
        (bearer(unsecured({"sub": "alice"}), b"n,a=al=2Cice,"), "al,ice"),
        (bearer(unsecured({"sub": 7})), None),
        (bearer(unsecured(["sub"])), None),
        (bearer(b"opaque-hunter2-secret"), None),
        (bearer(b"a.%%%.c"), None),
        (bearer(b"a." + b"W" * 20_000 + b".c"), None),
    ],
)
def test_a_bearer_token_gives_its_subject_and_nothing_else(token: bytes, user: str | None) -> None:
    for talk in (
        authenticate(shake("OAUTHBEARER", 1), 2, token),
        shake("OAUTHBEARER").client(sized(token)).broker(sized(b"")),
    ):
        found = found_in(talk)
        assert sasl_of(found) == [("OAUTHBEARER", user, "ok", 1, "kafka")]
        assert_no_secrets(found)


def test_a_bearer_token_that_is_refused_is_answered_with_the_reason() -> None:
    token, reason = bearer(unsecured({"sub": "mallory"})), b'{"status":"invalid_token"}'
    raw = shake("OAUTHBEARER").client(sized(token)).broker(sized(reason)).client(sized(b"\x01"))
    framed = authenticate(shake("OAUTHBEARER", 1), 2, token, reason)
    framed = authenticate(framed, 3, b"\x01", error_code=58)
    for talk in (raw.close(), framed.close()):
        assert sasl_of(found_in(talk)) == [("OAUTHBEARER", "mallory", "failed", 1, "kafka")]


def test_tokens_of_size_0_are_tokens() -> None:
    talk = conversation().client(sized(b"\x60 ticket")).broker(sized(b""))
    found = found_in(then_beats(talk.client(sized(b"")).broker(sized(b""))))
    assert outcomes(found) == [(2, "answered")]
    assert found.tables["problems"] == []


@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI", ""]), st.binary())
def test_any_token_gives_a_name_or_none(mechanism: str, token: bytes) -> None:
    for start in (b"", b"n,,", bearer(b"a.")[:-2]):
        assert isinstance(user_of(mechanism, start + token), str)
    login = Login()
    login.begin(mechanism, True)
    login.send_raw(token)
    login.receive_raw(token, True)
    assert login.outcome in ("", "ok", "failed")
