"""deploy/tls/openssl_keylog.c: built here, and preloaded into programs that write no key log.

The secrets are compared with those that the other side of each connection has logged itself.
"""

import ctypes.util
import os
import shutil
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tls.test_key_log_writers import Listener

SOURCE = Path(__file__).parents[2] / "deploy" / "tls" / "openssl_keylog.c"
# A context of its own, as clients in Python make one: it reads no variable.
PYTHON = """
import socket, ssl, sys
host, port = sys.argv[1].split(":")
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.maximum_version = ssl.TLSVersion[sys.argv[2]]
for _ in range(2):
    with socket.create_connection((host, int(port))) as plain:
        with context.wrap_socket(plain) as session:
            session.sendall(b"x")
"""
LIBRDKAFKA = """
import ctypes, os, sys
library = ctypes.CDLL(os.environ["LIBRDKAFKA"])
library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = ctypes.c_void_p
conf = ctypes.c_void_p(library.rd_kafka_conf_new())
text = ctypes.create_string_buffer(512)
settings = {"bootstrap.servers": sys.argv[1], "security.protocol": "ssl", "log_level": "0",
            "enable.ssl.certificate.verification": "false"}
for name, value in settings.items():
    done = library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, 512)
    assert done == 0, text.value
client = ctypes.c_void_p(library.rd_kafka_new(0, conf, text, 512))
assert client, text.value
library.rd_kafka_poll(client, 1500)
os._exit(0)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux")
    built = tmp_path_factory.mktemp("preload") / "openssl_keylog.so"
    words = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O2"]
    subprocess.run([compiler, *words, "-o", built, SOURCE, "-ldl"], check=True, timeout=60)
    return built


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    found = Listener()
    found.context.keylog_filename = str(tmp_path / "of-the-server")
    yield found
    found.close()


def run(program: str, library: Path, listener: Listener, log: Path, *words: str) -> None:
    more = {"LD_PRELOAD": str(library), "SSLKEYLOGFILE": str(log)}
    done = subprocess.run(
        [sys.executable, "-c", program, listener.address, *words],
        env={**os.environ, **more}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert listener.handshakes > 0


def secrets(path: Path) -> set[str]:
    lines = path.read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_the_secrets_are_those_of_the_server(
    library: Path, listener: Listener, tmp_path: Path, version: str
) -> None:
    if "libssl" not in linked_to(ssl._ssl.__file__):  # type: ignore[attr-defined]
        pytest.skip("OpenSSL is linked into this Python")
    log = tmp_path / "keys"
    run(PYTHON, library, listener, log, version)
    found = secrets(log)
    assert found == secrets(tmp_path / "of-the-server")
    assert len(found) >= 2
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_log_grows_and_a_link_is_not_followed(
    library: Path, listener: Listener, tmp_path: Path
) -> None:
    if "libssl" not in linked_to(ssl._ssl.__file__):  # type: ignore[attr-defined]
        pytest.skip("OpenSSL is linked into this Python")
    log = tmp_path / "keys"
    log.write_text("# before\n")
    run(PYTHON, library, listener, log, "TLSv1_3")
    assert log.read_text().startswith("# before\n")
    assert secrets(log) == secrets(tmp_path / "of-the-server")
    (tmp_path / "link").symlink_to(tmp_path / "aim")
    run(PYTHON, library, listener, tmp_path / "link", "TLSv1_3")
    assert not (tmp_path / "aim").exists()


@pytest.mark.slow
def test_librdkafka_of_the_system_writes_its_secrets(
    library: Path, listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LIBRDKAFKA names one that is not installed."""
    name = os.environ.get("LIBRDKAFKA") or ctypes.util.find_library("rdkafka")
    if name is None:
        pytest.skip("needs a librdkafka of the system: librdkafka1 of Debian, or LIBRDKAFKA")
    monkeypatch.setenv("LIBRDKAFKA", name)
    log = tmp_path / "keys"
    run(LIBRDKAFKA, library, listener, log)
    found, served = secrets(log), secrets(tmp_path / "of-the-server")
    # Either side may have ended before the last handshake of the other was done.
    both = {line.split()[1] for line in found} & {line.split()[1] for line in served}
    assert {line for line in found if line.split()[1] in both} == {
        line for line in served if line.split()[1] in both
    }
    assert both


def linked_to(module: str) -> str:
    """What a module is linked to, as the loader says."""
    done = subprocess.run(["ldd", module], capture_output=True, text=True, check=False)
    return done.stdout
