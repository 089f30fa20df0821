"""The key log of a recording, as clients would have written it.

Of TLS 1.2 the JVM's agent tells `RSA Session-ID:... Master-Key:...`; the client random that belongs
to the session is in the capture, where tshark finds it.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

CLIENT_HELLO, SERVER_HELLO = "1", "2"
OF_SESSION = re.compile(r"RSA Session-ID:([0-9A-F]+) Master-Key:([0-9A-F]+)", re.I)
TSHARK_TIMEOUT_SECONDS = 120


def by_client_random(lines: Iterable[str], randoms: dict[str, list[str]]) -> Iterator[str]:
    """The lines of a key log, sessions by their client randoms; `randoms` are by session id."""
    for line in lines:
        found = OF_SESSION.fullmatch(line.strip())
        if found is None:
            yield line
            continue
        for random in randoms.get(found[1].lower(), ()):
            yield f"CLIENT_RANDOM {random} {found[2].lower()}"


def client_randoms(capture: Path, port: int) -> dict[str, list[str]]:
    """Client randoms of connections by the session id that the server gave."""
    fields = ("tcp.stream", "tls.handshake.type", "tls.handshake.random",
              "tls.handshake.session_id")  # fmt: skip
    done = subprocess.run(
        ["tshark", "-r", str(capture), "-d", f"tcp.port=={port},tls", "-Y", "tls.handshake.random",
         "-T", "fields", *(word for field in fields for word in ("-e", field))],
        capture_output=True, text=True, timeout=TSHARK_TIMEOUT_SECONDS, check=True,
    )  # fmt: skip
    latest: dict[str, str] = {}
    randoms: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        stream, kind, random, session = (line.split("\t") + [""])[:4]
        if kind.split(",")[0] == CLIENT_HELLO:
            latest[stream] = random
        elif kind.split(",")[0] == SERVER_HELLO and session:
            randoms.setdefault(session.split(",")[0], []).append(latest[stream])
    return randoms


def inject(log: Path, capture: Path) -> None:
    """Put a key log into its capture, as a block before the packets, and delete it."""
    without = capture.rename(capture.with_suffix(".bare"))
    command = ["editcap", "--inject-secrets", f"tls,{log}", str(without), str(capture)]
    subprocess.run(command, check=True, capture_output=True, timeout=TSHARK_TIMEOUT_SECONDS)
    without.unlink()
    log.unlink()


def write_key_log(log: Path, capture: Path, port: int, target: Path) -> None:
    """Write what an agent logged, for the sessions of a capture."""
    lines = log.read_text(encoding="ascii").splitlines()
    found = by_client_random(lines, client_randoms(capture, port))
    target.write_text("".join(f"{line}\n" for line in found), encoding="ascii")
