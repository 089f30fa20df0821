"""Records sessions of `openssl s_client` and `s_server`: ``python -m tools.record_tls``.

Writes tests/tls/openssl_talks.json: what Python's ssl cannot do, key updates and early data of TLS
1.3, renegotiation of TLS 1.2. A relay between the two notes who wrote what. And
tests/tls/small_talks.json: a few exchanges by Python's ssl, so that what fuzzing finds in an edit
of them is found again.
"""

import json
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path

from tests.exchange_builders import request, response
from tests.tls.talks import Peers, Setup, certificate

TALKS_PLACE = Path(__file__).parent.parent / "tests" / "tls"
OUTPUT = TALKS_PLACE / "openssl_talks.json"
SMALL_OUTPUT = TALKS_PLACE / "small_talks.json"
# Each is had twice, the second time with the session of the first.
SMALL_SETUPS = (
    Setup("TLS 1.3"),
    Setup("TLS 1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    Setup("TLS 1.2", "ECDHE-ECDSA-CHACHA20-POLY1305", has_tickets=False),
    Setup("TLS 1.2", "ECDHE-ECDSA-AES256-SHA384"),
    Setup("TLS 1.2", "ECDHE-ECDSA-AES128-SHA", is_mac_outside=False),
    Setup("TLS 1.0", "ECDHE-ECDSA-AES128-SHA"),
)
SMALL_TURNS = (
    (True, request("ApiVersions", 3, 1, client_software_name="kio")),
    (False, response("ApiVersions", 3, 1)),
    (True, request("Heartbeat", 4, 2, group_id="g") + request("Heartbeat", 4, 3, group_id="g")),
    (False, response("Heartbeat", 4, 2, error_code=25)),
    (False, response("Heartbeat", 4, 3)),
)
PAUSE = 0.4  # seconds between inputs; the programs respond within milliseconds
# Typed at the client (c) and at the server (s); a letter alone is a command of the program:
# K updates both directions' keys, k the own; R renegotiates.
EARLY = b"early\n"
TALKS = {
    "key-update": ("-tls1_3", [("c", "one"), ("s", "two"), ("c", "K"), ("c", "three"),
                               ("s", "four"), ("s", "k"), ("s", "five"), ("c", "six"),
                               ("s", "K"), ("c", "seven"), ("s", "eight")]),
    "renegotiation": ("-tls1_2", [("c", "one"), ("s", "two"), ("c", "R"), ("c", "three"),
                                  ("s", "four")]),
}  # fmt: skip


class Relay(threading.Thread):
    """Passes bytes between one client and the server, and keeps them in `flights`."""

    def __init__(self, server_port: int) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.server_port = server_port
        self.flights: list[tuple[bool, str]] = []
        self.lock = threading.Lock()

    def run(self) -> None:
        client, _ = self.listener.accept()
        server = socket.create_connection(("127.0.0.1", self.server_port))
        back = threading.Thread(target=self.copy, args=(server, client, False), daemon=True)
        back.start()
        self.copy(client, server, True)
        back.join()

    def copy(self, source: socket.socket, sink: socket.socket, is_client: bool) -> None:
        while data := source.recv(1 << 16):
            with self.lock:
                self.flights.append((is_client, data.hex()))
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def record(version: str, typed: list[tuple[str, str]]) -> dict[str, object]:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        keys = Path(directory, "keys")
        server = subprocess.Popen(
            ["openssl", "s_server", "-accept", str(port), "-cert", certificate(), version,
             "-client_renegotiation"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(PAUSE)
        relay = Relay(port)
        relay.start()
        client = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{relay.port}", "-keylogfile",
             str(keys), version],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(PAUSE)
        sent = {"c": "", "s": ""}
        for who, text in typed:
            program = client if who == "c" else server
            assert program.stdin is not None
            program.stdin.write(text.encode() + b"\n")
            program.stdin.flush()
            if len(text) > 1:
                sent[who] += text + "\n"
            time.sleep(PAUSE)
        assert client.stdin is not None
        client.stdin.write(b"Q\n")
        client.stdin.flush()
        client.wait(5)
        server.terminate()
        server.wait(5)
        relay.join(5)
        return {
            "flights": relay.flights,
            "keylog": keys.read_bytes().hex(),
            "cipher": "",
            "is_resumed": False,
            "sent": [sent["c"].encode().hex(), sent["s"].encode().hex()],
        }


def record_early(is_accepted: bool) -> dict[str, object]:
    """A resumed session with early data."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        keys, ticket, early = (Path(directory, name) for name in ("keys", "ticket", "early"))
        early.write_bytes(EARLY)
        option = ["-early_data"] if is_accepted else ["-max_early_data", "1000"]
        server = subprocess.Popen(
            ["openssl", "s_server", "-accept", str(port), "-cert", certificate(), "-tls1_3",
             *option],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(PAUSE)
        for options, typed in (
            (["-sess_out", str(ticket)], [(server, b"hi\n")]),
            (["-sess_in", str(ticket), "-early_data", str(early)],
             [(None, b"one\n"), (server, b"two\n"), (None, b"three\n")]),
        ):  # fmt: skip
            relay = Relay(port)
            relay.start()
            client = subprocess.Popen(
                ["openssl", "s_client", "-connect", f"127.0.0.1:{relay.port}", "-tls1_3",
                 "-keylogfile", str(keys), *options],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(2 * PAUSE)
            for program, text in [*typed, (None, b"Q\n")]:
                stdin = (program or client).stdin
                assert stdin is not None
                stdin.write(text)
                stdin.flush()
                time.sleep(PAUSE)
            client.wait(5)
            relay.join(5)
        server.terminate()
        server.wait(5)
        return {
            "flights": relay.flights,
            "keylog": keys.read_bytes().hex(),
            "cipher": "",
            "is_resumed": True,
            "sent": [((EARLY if is_accepted else b"") + b"one\nthree\n").hex(), b"two\n".hex()],
        }


def main() -> None:
    talks = {name: record(*asked) for name, asked in TALKS.items()}
    talks["early-data"] = record_early(True)
    talks["early-data-rejected"] = record_early(False)
    OUTPUT.write_text(json.dumps(talks, indent=1) + "\n")
    print(f"{OUTPUT}: {', '.join(talks)}")
    small = []
    for setup in SMALL_SETUPS:
        peers = Peers(setup)
        first, session = peers.meet(SMALL_TURNS)
        small += [first, peers.meet(SMALL_TURNS, session)[0]]
    SMALL_OUTPUT.write_text(json.dumps([asdict(talk) for talk in small], default=bytes.hex) + "\n")
    print(f"{SMALL_OUTPUT}: {len(small)} talks")


if __name__ == "__main__":
    main()
