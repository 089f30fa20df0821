"""Events of findings as JSON to a URL: to this machine alone, and never in the capture's way."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdissect.cli.program import run
from kdissect.errors import InvalidArgument, Problem
from kdissect.live import webhook
from kdissect.live.webhook import Target, Webhook, target_of
from tests.live.made_rows import status
from tests.live.test_live_findings import STALLED

ROOT = Path(__file__).parent.parent.parent


class Receiver(ThreadingHTTPServer):
    """Keeps what is posted; answers with a status."""

    daemon_threads = True

    def __init__(self, answer: int = 204, location: str = "", wait_s: float = 0) -> None:
        self.posts: list[tuple[str, Any]] = []
        self.answer, self.location, self.wait_s = answer, location, wait_s
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?x=1"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, json.loads(body)))
        time.sleep(self.server.wait_s)
        self.send_response(self.server.answer)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receivers() -> Iterator[Any]:
    opened: list[Receiver] = []

    def receiver(**more: Any) -> Receiver:
        opened.append(Receiver(**more))
        return opened[-1]

    yield receiver
    for one in opened:
        one.shutdown()
        one.server_close()


def sent(url: str, events: list[dict[str, Any]]) -> list[Problem]:
    """Send the events; return the problems."""
    problems: list[Problem] = []
    hook = Webhook(target_of(url))
    hook.begin(SimpleNamespace(dissector=SimpleNamespace(add_problems=problems.extend)))  # type: ignore[arg-type]
    for event in events:
        hook.put(event)
    hook.finish(status(0))
    hook.tick(status(1))
    return problems


def test_events_are_posted_in_order(receivers: Any) -> None:
    receiver = receivers()
    events = [
        {"event": "begun", "id": str(number), "text": "\u202e\x1b[31m"} for number in range(5)
    ]
    assert sent(receiver.url, events) == []
    assert receiver.posts == [("/hook?x=1", event) for event in events]


def test_redirects_are_not_followed(receivers: Any) -> None:
    other = receivers()
    receiver = receivers(answer=307, location=other.url)
    (problem,) = sent(receiver.url, [{"event": "begun"}])
    assert problem.kind == "webhook-failed"
    assert problem.message.endswith("it answered 307")
    assert (len(receiver.posts), other.posts) == (1, [])


def test_proxies_are_not_used(receivers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver, proxy = receivers(), receivers()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    assert sent(receiver.url, [{"event": "begun"}]) == []
    assert (len(receiver.posts), proxy.posts) == (1, [])


def test_a_receiver_that_is_gone_is_a_problem() -> None:
    receiver = Receiver()
    receiver.shutdown()
    receiver.server_close()
    (problem,) = sent(receiver.url, [{"event": "begun"}] * 3)
    assert problem.message.startswith("events of findings not sent to the webhook: 3; ")
    assert "refused" in problem.message


def test_a_slow_receiver_does_not_delay_the_capture(
    receivers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "END_S", 0.1)
    receiver = receivers(wait_s=1.0)
    begun = time.monotonic()
    (problem,) = sent(receiver.url, [{"event": "begun"}] * (webhook.ROOM + 20))
    assert time.monotonic() - begun < 1.0
    assert "events wait already" in problem.message


@pytest.mark.parametrize(
    "url",
    ["http://localhost/x", "http://127.0.0.1:1/", "http://[::1]:8080", "https://127.1.2.3/a?b=c"],
)
def test_this_machine_is_allowed(url: str) -> None:
    assert target_of(url).host in ("127.0.0.1", "::1", "127.1.2.3")


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.7/", "http://example.org/", "http://localhost.example.org/",
        "http://127.0.0.1.example.org/", "http://0.0.0.0/", "http://[::]/", "http://2130706433/",
        "http://0x7f000001/", "http://127.1/", "http://[fe80::1]/", "https://169.254.169.254/",
    ],
)  # fmt: skip
def test_other_hosts_are_refused_unless_they_are_allowed(url: str) -> None:
    with pytest.raises(InvalidArgument, match="this machine only; --webhook-allow"):
        target_of(url, ["other.example.org"])


def test_an_allowed_host_is_that_one_alone() -> None:
    allowed = ["Hooks.example.org"]
    assert target_of("https://hooks.EXAMPLE.org/a", allowed) == Target(
        "https", "hooks.example.org", None, "/a"
    )
    for host in ("a.hooks.example.org", "hooks.example.org.evil"):
        with pytest.raises(InvalidArgument, match="this machine only"):
            target_of(f"https://{host}/", allowed)


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http://127.0.0.1:99999/",
     "http://127.0.0.1/a b", "http://127.0.0.1/\r\nX: y", "http://u:p@127.0.0.1/", "http://[::1"],
)  # fmt: skip
def test_what_is_no_url_is_an_error(url: str) -> None:
    with pytest.raises(InvalidArgument, match="--webhook"):
        target_of(url)


def test_options_that_do_not_fit_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["live", str(STALLED), "--webhook", "http://10.0.0.7/"]
    assert run(words) == 2
    assert "give --findings 5m, too" in capsys.readouterr().err
    assert run([*words, "--findings", "30s"]) == 2
    assert "--webhook-allow 10.0.0.7 allows that host" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_posts_its_findings(receivers: Any) -> None:
    receiver = receivers()
    command = [sys.executable, "-m", "kdissect", "live", str(STALLED), "--findings", "30s"]
    done = subprocess.run(
        [*command, "--webhook", receiver.url], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ((_, post),) = receiver.posts
    assert (post["schema_version"], post["command"]) == (1, "live")
    (event,) = post["finding_events"]
    told = event["event"], event["id"], event["severity"]
    assert told == ("begun", "broker-stalls", "problem")
    assert " begun: problem broker-stalls" in done.stderr
