"""Claims of docs/tls.md about Kafka clients and SSLKEYLOGFILE, tested with the clients.

Each client runs in a process of its own against a TLS listener on loopback, so that the variable is
in its environment from the start. The listener closes after each handshake.
"""

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tls.talks import certificate

LIBRDKAFKA = """
import sys
from confluent_kafka import Producer
producer = Producer({
    "bootstrap.servers": sys.argv[1], "security.protocol": "ssl", "log_level": 0,
    "enable.ssl.certificate.verification": False, "reconnect.backoff.ms": 20,
})
producer.poll(float(sys.argv[3]))
"""
KAFKA_PYTHON = """
import ssl, sys
from kafka import KafkaConsumer
options = {}
if sys.argv[2] == "default context":
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    options = {"ssl_context": context}
else:
    options = {"ssl_cafile": sys.argv[4], "ssl_check_hostname": False}
try:
    KafkaConsumer(
        bootstrap_servers=sys.argv[1], security_protocol="SSL", api_version_auto_timeout_ms=1000,
        **options,
    )
except Exception as error:
    print(error)
"""
SECONDS = "1.0"  # that librdkafka is given to connect


class Listener:
    """A TLS server that ends each connection after its handshake."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate("rsa"))
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.handshakes = 0
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self.socket.accept()
            except OSError:
                return
            accepted.settimeout(5)
            try:
                with self.context.wrap_socket(accepted, server_side=True) as session:
                    self.handshakes += bool(session.recv(1))  # the client finished the handshake
            except OSError:
                continue


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


def key_log_of(program: str, kind: str, listener: Listener, directory: Path) -> str | None:
    """Contents of the file in SSLKEYLOGFILE after a client ran; None without a file."""
    path = directory / "keys.log"
    subprocess.run(
        [sys.executable, "-c", program, listener.address, kind, SECONDS, certificate("rsa")],
        env={**os.environ, "SSLKEYLOGFILE": str(path)},
        check=True,
        timeout=60,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert listener.handshakes > 0
    return path.read_text() if path.exists() else None


@pytest.mark.slow
def test_librdkafka_writes_no_secret_to_sslkeylogfile(listener: Listener, tmp_path: Path) -> None:
    """Its wheels have libcurl in them, which makes the file and writes nothing of Kafka there."""
    assert not key_log_of(LIBRDKAFKA, "", listener, tmp_path)


@pytest.mark.slow
def test_kafka_python_reads_sslkeylogfile_only_through_a_default_context(
    listener: Listener, tmp_path: Path
) -> None:
    assert key_log_of(KAFKA_PYTHON, "own context", listener, tmp_path) is None
    written = key_log_of(KAFKA_PYTHON, "default context", listener, tmp_path)
    assert written is not None
    assert "CLIENT_TRAFFIC_SECRET_0 " in written
