"""Real TLS sessions: Python's ssl (OpenSSL) on both sides, in memory, with the log of their keys.

`Talk.conversation` makes packets of the data that the two sides wrote.
"""

import atexit
import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.conversation import Conversation, conversation

ROOT = Path(__file__).parents[2]
HOST = "broker-1.example"
NO_ENCRYPT_THEN_MAC = 0x0008_0000  # SSL_OP_NO_ENCRYPT_THEN_MAC, which Python has no name for
VERSIONS = {
    "TLS 1.0": ssl.TLSVersion.TLSv1,
    "TLS 1.1": ssl.TLSVersion.TLSv1_1,
    "TLS 1.2": ssl.TLSVersion.TLSv1_2,
    "TLS 1.3": ssl.TLSVersion.TLSv1_3,
}
READ_SIZE = 1 << 16


@dataclass(frozen=True)
class Setup:
    """TLS settings of both sides; `ciphers` as OpenSSL names them, TLS 1.3 included."""

    version: str
    ciphers: str = ""
    is_mac_outside: bool = True
    has_tickets: bool = True
    server_name: str | None = HOST
    alpn: tuple[str, ...] = ()


@dataclass(frozen=True)
class Talk:
    """Written data: (is_client, bytes) in turns, and the key log."""

    flights: tuple[tuple[bool, bytes], ...]
    keylog: bytes
    cipher: str
    is_resumed: bool
    sent: tuple[bytes, bytes]  # plaintext of client and server

    def conversation(self) -> Conversation:
        return say(conversation(), self.flights)

    def keylog_file(self, directory: Path) -> Path:
        path = directory / "keys.log"
        path.write_bytes(self.keylog)
        return path


def say(talk: Conversation, flights: Sequence[tuple[bool, bytes]]) -> Conversation:
    for is_client, data in flights:
        talk = talk.client(data) if is_client else talk.broker(data)
    return talk


@cache
def certificate(kind: str = "ecdsa") -> str:
    """Path of a key and a self-signed certificate of the host."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key: Any = (
        ec.generate_private_key(ec.SECP256R1())
        if kind == "ecdsa"
        else rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36_500))
        .sign(key, hashes.SHA256())
    )
    with tempfile.NamedTemporaryFile("wb", suffix=".pem", delete=False) as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        file.write(made.public_bytes(serialization.Encoding.PEM))
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name


@cache
def dh_parameters() -> str:
    """Path of the group ffdhe2048, computed as RFC 7919 does."""
    scale = 1 << 2100
    euler = term = scale
    number = 1
    while term:
        term //= number
        euler += term
        number += 1
    first = (euler << 1918) // scale + 560_316
    prime = (1 << 2048) - (1 << 1984) + (first << 64) - 1
    # SEQUENCE of INTEGER prime and INTEGER 2
    content = b"\x02\x82\x01\x01" + prime.to_bytes(257, "big") + b"\x02\x01\x02"
    der = b"\x30\x82" + len(content).to_bytes(2, "big") + content
    with tempfile.NamedTemporaryFile("wb", suffix=".pem", delete=False) as file:
        file.write(b"-----BEGIN DH PARAMETERS-----\n" + base64.encodebytes(der))
        file.write(b"-----END DH PARAMETERS-----\n")
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name


class Peers:
    """A client's and a server's settings, which may meet more than once."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.client.check_hostname = False
        self.client.verify_mode = ssl.CERT_NONE
        for kind in ("ecdsa", "rsa"):
            self.server.load_cert_chain(certificate(kind))
        self.server.load_dh_params(dh_parameters())
        with warnings.catch_warnings():
            # The old versions are intended here.
            warnings.simplefilter("ignore", DeprecationWarning)
            for context in (self.client, self.server):
                context.minimum_version = context.maximum_version = VERSIONS[setup.version]
                if setup.ciphers:
                    context.set_ciphers(f"{setup.ciphers}:@SECLEVEL=0")
                if not setup.is_mac_outside:
                    context.options |= NO_ENCRYPT_THEN_MAC
                if not setup.has_tickets:
                    context.options |= ssl.OP_NO_TICKET
                if setup.alpn:
                    context.set_alpn_protocols(list(setup.alpn))

    def meet(
        self,
        turns: Sequence[tuple[bool, bytes]],
        session: Any = None,
        logs: bool = True,
    ) -> tuple[Talk, Any]:
        """Handshake, data and close; and the session, for resumption."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "keys")
            path.touch()
            if logs:
                self.client.keylog_filename = str(path)
            one = _Side(self.client, False, self.setup.server_name, session)
            other = _Side(self.server, True)
            flights: list[tuple[bool, bytes]] = []
            is_done = False
            while not is_done:
                is_done = one.try_(one.tls.do_handshake)
                is_done = other.try_(other.tls.do_handshake) and is_done
                _pass(one, other, flights)
            _pass(one, other, flights)
            sent = [b"", b""]
            for is_client, message in turns:
                here, there = (one, other) if is_client else (other, one)
                assert here.tls.write(message) == len(message)
                _pass(one, other, flights)
                there.read()
                here.read()
                sent[0 if is_client else 1] += message
            reached = one.tls.session
            for here in (one, other):
                here.try_(here.tls.unwrap)
                _pass(one, other, flights)
            assert (one.received, other.received) == (sent[1], sent[0])
            cipher = one.tls.cipher()
            is_resumed = bool(one.tls.session_reused)
            assert cipher is not None
            if logs:
                del one, other
            keylog = path.read_bytes()
            talk = Talk(tuple(flights), keylog, cipher[0], is_resumed, (sent[0], sent[1]))
        return talk, reached


class _Side:
    def __init__(
        self, context: ssl.SSLContext, is_server: bool, name: str | None = None, session: Any = None
    ) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self.incoming, self.outgoing, is_server, server_hostname=name, session=session
        )
        self.received = b""

    def try_(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except ssl.SSLWantReadError:
            return False
        return True

    def read(self) -> None:
        try:
            while data := self.tls.read(READ_SIZE):
                self.received += data
        except ssl.SSLWantReadError:
            return


def _pass(one: _Side, other: _Side, flights: list[tuple[bool, bytes]]) -> None:
    for here, there, is_client in ((one, other, True), (other, one, False)):
        if here.outgoing.pending:
            data = here.outgoing.read()
            there.incoming.write(data)
            flights.append((is_client, data))


def make_talk(setup: Setup, turns: Sequence[tuple[bool, bytes]]) -> Talk:
    return Peers(setup).meet(turns)[0]


def make_talk_13(suite: str, turns: Sequence[tuple[bool, bytes]]) -> Talk:
    """A talk of TLS 1.3 with one suite, which only OpenSSL's own settings can choose."""
    with tempfile.TemporaryDirectory() as directory:
        settings = Path(directory, "openssl.cnf")
        settings.write_text(
            "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = tls\n"
            f"[tls]\nCiphersuites = {suite}\n"
        )
        asked = json.dumps([[is_client, data.hex()] for is_client, data in turns])
        done = subprocess.run(
            [sys.executable, "-m", "tests.tls.talks"],
            cwd=ROOT,
            input=asked,
            env=os.environ | {"OPENSSL_CONF": str(settings)},
            capture_output=True,
            text=True,
            check=True,
        )
    return read_talk(json.loads(done.stdout))


def read_talk(told: dict[str, Any]) -> Talk:
    """A talk from its JSON."""
    return Talk(
        tuple((is_client, bytes.fromhex(data)) for is_client, data in told["flights"]),
        bytes.fromhex(told["keylog"]),
        told["cipher"],
        told["is_resumed"],
        (bytes.fromhex(told["sent"][0]), bytes.fromhex(told["sent"][1])),
    )


def _main() -> None:
    turns = [(is_client, bytes.fromhex(data)) for is_client, data in json.load(sys.stdin)]
    # Newer OpenSSLs refuse CCM_8 unless security is lowered, which comes with `ciphers`.
    told = asdict(make_talk(Setup("TLS 1.3", ciphers="DEFAULT"), turns))
    json.dump(told, sys.stdout, default=bytes.hex)


if __name__ == "__main__":
    _main()
