"""Credentials in captures, found without the code that hides them, and their possible forms.

From side-cars: the clients' configuration. From the bytes of the capture: SASL and SCRAM tokens in
ASCII. From bodies decoded as they are: fields in the schema's list.
"""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kdissect.capture.files import open_captures
from kdissect.errors import DecodeError
from kdissect.messages.bodies import decode_body
from kdissect.messages.headers import read_request_header, response_body_offset
from kdissect.pipeline import Options, feed_all, make_dissector

SHORTEST = 6  # bytes: shorter values match by chance
# Of SCRAM and OAUTHBEARER tokens, and of the Java client's settings.
IN_BYTES = (
    rb"auth=Bearer ([^\x01]+)\x01",
    rb"r=[!-~]+,s=([A-Za-z0-9+/=]+),i=\d+",
    rb"c=[A-Za-z0-9+/=]+,r=[!-~]+,p=([A-Za-z0-9+/=]+)",
    rb"v=([A-Za-z0-9+/]{27,}=?=?)",
)
SETTINGS = ("sasl_plain_password", "sasl.password", "password", "token", "hmac")
CREDENTIAL_FIELDS = {"hmac", "salt", "salted_password", "auth_bytes"}
# RFC 7628, 3.2.2: the reason why OAUTHBEARER was refused; Kafka repeats it as the error message.
REFUSAL = b'{"status":"'


def secrets_of(capture: Path) -> set[bytes]:
    """Every credential in a capture, as it is on the wire."""
    told = set(in_settings(json.loads(capture.with_suffix(".json").read_text(encoding="utf-8"))))
    seen = set(in_bytes(capture.read_bytes())) | set(in_bodies(capture))
    return {secret for secret in told | seen if len(secret) >= SHORTEST}


def in_settings(value: Any) -> Iterator[bytes]:
    """Passwords and tokens in a side-car."""
    if isinstance(value, list):
        for item in value:
            yield from in_settings(item)
    if not isinstance(value, dict):
        return
    for name, content in value.items():
        if name == "sasl.jaas.config":
            yield from (text.encode() for text in re.findall(r'password="([^"]+)"', content))
        elif name in SETTINGS and isinstance(content, str):
            yield content.encode()
            if name == "hmac":
                yield base64.b64decode(content)
        yield from in_settings(content)


def in_bytes(data: bytes) -> Iterator[bytes]:
    """Secret parts of tokens; base64 texts also as their decoded bytes."""
    for pattern in IN_BYTES:
        for found in re.findall(pattern, data):
            yield found
            if not found.startswith(b"eyJ"):
                yield base64.b64decode(found + b"==")


def in_bodies(capture: Path) -> Iterator[bytes]:
    """Credential fields of bodies, decoded as they are."""
    options = Options(tables=())
    dissector = make_dissector(options, collects=True, keeps_frames=True)
    with open_captures(str(capture)) as opened:
        for _ in feed_all(opened, dissector, options):
            for exchange in dissector.take_exchanges():
                key, version = int(exchange.api_key), int(exchange.api_version)
                for side in ("request", "response"):
                    frame = getattr(exchange, f"{side}_frame")
                    if frame is not None and not exchange.dialect:
                        yield from in_body(raw_body(key, version, side, frame.data))


def raw_body(key: int, version: int, side: str, data: bytes) -> Any:
    """A body with everything in it; None where it cannot be decoded."""
    try:
        if side == "request":
            offset = read_request_header(data).body_offset
        else:
            offset = response_body_offset(key, version, data)
        return decode_body(key, version, side, data, int(offset))
    except DecodeError:
        return None


def in_body(value: Any) -> Iterator[bytes]:
    if isinstance(value, list):
        for item in value:
            yield from in_body(item)
    elif isinstance(value, dict):
        for name, content in value.items():
            if name in CREDENTIAL_FIELDS and isinstance(content, bytes):
                if not content.startswith(REFUSAL):
                    yield content
            else:
                yield from in_body(content)


def forms(secret: bytes) -> Iterator[bytes]:
    """The ways in which an output may show a secret, or any text that it is within."""
    yield secret
    for text in (secret.decode("latin-1"), secret.decode("utf-8", "backslashreplace")):
        yield text.encode()
        yield json.dumps(text)[1:-1].encode()
        yield repr(text)[1:-1].encode()
        yield text.encode().replace(b'"', b'""')
    yield repr(secret)[2:-1].encode()
    for digits in (secret.hex(), secret.hex(" "), secret.hex(":")):
        yield digits.encode()
        yield digits.upper().encode()
    for before in range(3):
        # The characters that depend on the secret alone, at any alignment in the text.
        first, last = -(-before * 4 // 3), (before + len(secret)) * 4 // 3
        padded = bytes(before) + secret
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(padded)[first:last]


def found_in(secrets: set[bytes], output: bytes) -> set[bytes]:
    """The secrets that an output shows in some form; hex dumps with their lines joined."""
    joined = re.sub(rb"\n\s*[0-9a-f]{8}  ", b" ", output).replace(b"  ", b" ")
    return {
        secret
        for secret in secrets
        if any(form in output or form in joined for form in forms(secret) if len(form) >= SHORTEST)
    }
