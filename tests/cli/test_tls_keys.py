"""`kdissect tls-keys`: an agent in a running JVM; its secrets are those that the server logs."""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.errors import KdissectError
from kdissect.live.java_agent import Jvm
from tests.tls.test_key_log_writers import Listener

SOURCE = Path(__file__).parents[1] / "tls" / "LoggedClient.java"
FETCHED = (
    Path.home()
    / ".m2/repository/name/neykov/extract-tls-secrets/4.0.0/extract-tls-secrets-4.0.0.jar"
)
TIMEOUT_S = 60
needs_java = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("jcmd") is None, reason="needs a JDK"
)


class Client:
    """A JVM that makes TLS connections when told to."""

    def __init__(self, classes: Path) -> None:
        self.process = subprocess.Popen(
            ["java", "-Xmx64m", "-cp", str(classes), "LoggedClient"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.hear("ready")

    def hear(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"

    def connect(self, port: int, protocol: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{port} {protocol}\n")
        self.process.stdin.flush()
        self.hear("done")

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-d", made, SOURCE], check=True, timeout=TIMEOUT_S)
    return made


@pytest.fixture
def client(classes: Path) -> Iterator[Client]:
    made = Client(classes)
    yield made
    made.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    found = Listener()
    found.context.keylog_filename = str(tmp_path / "of-the-server")
    yield found
    found.close()


def agent() -> Path:
    """The agent that Maven, or TLS_SECRETS_AGENT, has; it is not fetched by a test."""
    named = os.environ.get("TLS_SECRETS_AGENT")
    path = Path(named) if named else FETCHED
    if not path.is_file():
        pytest.skip("needs extract-tls-secrets 4.0.0 of Maven Central, or TLS_SECRETS_AGENT")
    return path


def tls_keys(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "kdissect", "tls-keys", *map(str, words)],
        capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def words_of(path: Path) -> set[str]:
    """The secrets themselves."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {line.replace("Master-Key:", " ").split()[-1].lower() for line in lines}


def logged(path: Path) -> set[str]:
    """Secrets of the server; its one more of TLS 1.3, the exporter's, decrypts nothing."""
    lines = path.read_text().splitlines()
    return {line.split()[-1] for line in lines if not line.startswith(("#", "EXPORTER"))}


@needs_java
@pytest.mark.slow
def test_the_secrets_of_a_running_jvm_are_those_of_the_server(
    client: Client, listener: Listener, tmp_path: Path
) -> None:
    jar, log = agent(), tmp_path / "keys"
    port = listener.socket.getsockname()[1]
    client.connect(port, "TLSv1.3")  # before the agent: its secrets are not had
    before = words_of(tmp_path / "of-the-server")
    done = tls_keys("--pid", client.process.pid, "--agent", jar, "-o", log, "--yes")
    assert (done.returncode, done.stdout) == (0, "")
    assert "LoggedClient" in done.stderr
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert log.read_text() == ""
    for protocol in ("TLSv1.3", "TLSv1.2", "TLSv1.3"):
        client.connect(port, protocol)
    deadline = time.monotonic() + TIMEOUT_S
    while (found := words_of(log)) != (served := logged(tmp_path / "of-the-server") - before):
        assert time.monotonic() < deadline, (found, served)  # each writes when it gets to it
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert not any(secret in done.stderr for secret in found)
    again = tls_keys("--java", client.process.pid, "--agent", jar, "-o", log, "--yes")
    assert again.returncode == 2
    assert "exists" in again.stderr


@needs_java
@pytest.mark.slow
def test_what_cannot_be_is_said_and_leaves_no_file(client: Client, tmp_path: Path) -> None:
    jar = tmp_path / "no-agent.jar"
    jar.write_bytes(b"no jar")
    log = tmp_path / "keys"
    refused = tls_keys("--pid", client.process.pid, "--agent", jar, "-o", log, "--yes")
    assert refused.returncode != 0
    assert "did not load the agent" in refused.stderr
    unasked = tls_keys("--pid", client.process.pid, "--agent", jar, "-o", log)
    assert "no terminal to ask on: --yes" in unasked.stderr
    assert "secrets of all TLS sessions" in unasked.stderr
    blank = tls_keys("--pid", client.process.pid, "--agent", jar, "-o", tmp_path / "a b", "--yes")
    assert "no path with blanks" in blank.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["no-agent.jar"]
    assert all("Traceback" not in one.stderr for one in (refused, unasked, blank))


def test_other_processes_are_no_jvms(tmp_path: Path) -> None:
    jar = tmp_path / "agent.jar"
    jar.write_bytes(b"")
    done = tls_keys("--pid", os.getpid(), "--agent", jar, "-o", tmp_path / "keys", "--yes")
    assert (done.returncode, "no JVM" in done.stderr) == (2, True)
    done = tls_keys("--pid", 4_000_000, "--agent", jar, "-o", tmp_path / "keys", "--yes")
    assert (done.returncode, "there is no process 4000000" in done.stderr) == (2, True)
    assert not (tmp_path / "keys").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount namespace")
def test_a_jvm_with_other_files_is_an_error_that_says_the_way_in(tmp_path: Path) -> None:
    """As that of a unit with PrivateTmp: `keys` would be another file for it."""
    program = tmp_path / "java"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen(["unshare", "--mount", program, str(TIMEOUT_S)]) as process:
        try:
            await_program(process.pid)
            with pytest.raises(KdissectError, match=f"nsenter --mount --target {process.pid} "):
                Jvm.of(process.pid)
        finally:
            process.kill()


def await_program(pid: int) -> None:
    """Wait until a process has become `java`."""
    deadline = time.monotonic() + TIMEOUT_S
    while Path(f"/proc/{pid}/exe").readlink().name != "java":
        assert time.monotonic() < deadline
        time.sleep(0.01)
