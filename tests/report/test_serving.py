"""A served page: only for who knows its address, from this machine, read-only; it renews itself."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kdissect
from kdissect.cli.program import ANSWERED, MISUSED, run
from kdissect.errors import KdissectError
from kdissect.report.serving import LEAST_S, Renewing, Serving, serve
from tests.live.replays import replay
from tests.report.test_browser import OF_PLOT
from tests.report.test_numbers import data_of
from tests.report.test_site import CAPTURE, DEADLINE_S, rotations_of

CURL = shutil.which("curl")
PAGE = b"<!doctype html><title>x</title>"


@pytest.fixture
def serving() -> Iterator[Serving]:
    made = serve(Renewing(lambda: 1, lambda _: PAGE))
    yield made
    made.server.close()


def parts(serving: Serving) -> tuple[str, str]:
    """Host with port, and path of the address."""
    host, _, path = serving.address.removeprefix("http://").partition("/")
    return host, f"/{path}"


def asked(serving: Serving, request: str) -> tuple[int, bytes]:
    """Status and body of a request that is sent as it is written."""
    with socket.create_connection(("127.0.0.1", serving.server.port), DEADLINE_S) as link:
        link.sendall(request.encode())
        answer = b""
        while part := link.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def request(
    serving: Serving, *more: str, method: str = "GET", host: str = "", path: str = ""
) -> str:
    own_host, own_path = parts(serving)
    lines = [f"{method} {path or own_path} HTTP/1.1", f"Host: {host or own_host}", *more]
    return "\r\n".join([*lines, "", ""])


def test_the_page_is_served_at_its_secret_address_on_loopback_only(serving: Serving) -> None:
    assert serving.server.address == "127.0.0.1"
    assert asked(serving, request(serving)) == (200, PAGE)
    port = serving.server.port
    assert asked(serving, request(serving, host=f"localhost:{port}")) == (200, PAGE)
    assert asked(serving, request(serving, method="HEAD")) == (200, b"")
    token = parts(serving)[1].strip("/")
    assert len(token) >= 32
    for path in (
        "/", "/x/", f"/{token[:-1]}/", f"/{token}", f"/{token}x/", f"/{token}/../",
        f"/{token}/etc", f"/{token}/state/", f"/{token}/..%2f", f"/%00{token}/", "/\u00e9/",
        f"http://127.0.0.1:{port}/",
    ):  # fmt: skip
        status, body = asked(serving, request(serving, path=path))
        assert (status, PAGE in body) == (404, False), path


def test_no_other_origin_or_name_gets_an_answer(serving: Serving) -> None:
    port = serving.server.port
    # After DNS rebinding, a page's own name leads here.
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", "x",
                 f"127.0.0.1:{port}.evil.example", f"[::1]:{port}", f"0.0.0.0:{port}"):  # fmt: skip
        assert asked(serving, request(serving, host=host))[0] == 403, host
    twice = request(serving, "Host: evil.example")
    assert asked(serving, twice)[0] == 403
    assert asked(serving, f"GET {parts(serving)[1]} HTTP/1.0\r\n\r\n")[0] == 403
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", "http://127.0.0.1"):
        assert asked(serving, request(serving, f"Origin: {origin}"))[0] == 403, origin
    for site in ("cross-site", "same-site"):
        assert asked(serving, request(serving, f"Sec-Fetch-Site: {site}"))[0] == 403
    own = request(serving, f"Origin: http://127.0.0.1:{port}", "Sec-Fetch-Site: same-origin")
    assert asked(serving, own)[0] == 200


def test_it_is_read_only(serving: Serving) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"):
        assert asked(serving, request(serving, "Content-Length: 0", method=method))[0] == 405


@pytest.mark.skipif(CURL is None, reason="needs curl")
def test_curl_gets_the_page_with_headers_that_keep_it_here(serving: Serving) -> None:
    done = subprocess.run(
        [str(CURL), "--silent", "--show-error", "--include", "--max-time", "20", serving.address],
        check=True, capture_output=True,
    )  # fmt: skip
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    assert body == PAGE
    said = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert said[b"Cache-Control"] == b"no-store"
    assert said[b"X-Frame-Options"] == b"DENY"
    assert said[b"Referrer-Policy"] == b"no-referrer"
    assert b"frame-ancestors 'none'" in said[b"Content-Security-Policy"]
    assert b"Access-Control-Allow-Origin" not in said


def test_a_page_is_made_once_for_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.report.serving.LEAST_S", 0)
    assert LEAST_S > 0
    states, made = [1, 1, 1, 2, 2], []
    renewing = Renewing(lambda: states[0] if len(states) == 1 else states.pop(0), made.append)  # type: ignore[arg-type, func-returns-value]
    for _ in range(5):
        renewing.page()
    assert len(made) == len(set(made)) == 2


def test_what_cannot_be_made_now_is_said_and_escaped() -> None:
    def fails(_: str) -> bytes:
        raise KdissectError("nothing in <b>\u202e</b>")

    made = serve(Renewing(lambda: 1, fails))
    try:
        status, body = asked(made, request(made))
    finally:
        made.server.close()
    assert status == 503
    assert b"nothing in &lt;b&gt;\\u202e&lt;/b&gt;" in body


def test_options_that_do_not_go_together_are_said(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for words, said in (
        (["--serve", "-o", "x.html"], "it goes without -o"),
        (["--serve", "--by", "day"], "it goes without -o"),
        ([], "Missing option '-o'"),
        (["--serve"], "are for datasets and directories of live captures"),
    ):
        assert run(["report", str(CAPTURE), *words]) == MISUSED
        assert said in capfd.readouterr().err


def served(live: Path, *words: str) -> tuple[subprocess.Popen[bytes], str]:
    """A process that serves, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kdissect", "report", str(live), "--serve", *words],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
    assert ready
    return process, process.stdout.readline().decode().strip()


@pytest.mark.slow
def test_a_browser_shows_new_rows_by_itself(tmp_path: Path, browser: Any) -> None:
    live, hidden = tmp_path / "live", tmp_path / "hidden"
    replay(CAPTURE, live, count=50, every_s=4)
    last = rotations_of(live)[-1]
    shutil.move(last, hidden)
    process, address = served(live, "--every", "300ms")
    try:
        context = browser.new_context()
        page, said = context.new_page(), []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        before = page.locator("#totals dd").first.text_content()
        page.locator(".card h3 button").last.click()
        page.get_by_role("button", name="Show less time").click()
        zoomed = page.evaluate(OF_PLOT, "time-plot")["dataZoom"][0]["startValue"]
        number = kdissect.read(live).to_arrow().num_rows
        assert f"{number}" in str(before)
        shutil.move(hidden, last)
        number = kdissect.read(live).to_arrow().num_rows
        page.locator("#totals dd", has_text=str(number)).first.wait_for(timeout=60_000)
        assert str(number) not in str(before)
        page.locator('.card [aria-expanded="true"]').wait_for()
        shown = page.evaluate(OF_PLOT, "time-plot")["dataZoom"][0]["startValue"]
        assert shown == zoomed
        assert data_of(page.content().encode())["totals"]["exchanges"] == number
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == ANSWERED
        page.locator("#renewed", has_text="Not renewed").wait_for()
        ends = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE")
        assert [one for one in said if not any(end in one for end in ends)] == []
        context.close()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_another_page_cannot_read_frame_or_open_it(
    serving: Serving, browser: Any, tmp_path: Path
) -> None:
    """A page of another origin that even knows the address."""
    page = browser.new_page()
    (tmp_path / "evil.html").write_text("<!doctype html><title>evil</title><body>")
    page.goto((tmp_path / "evil.html").as_uri())
    found = page.evaluate(
        """async address => {
            const found = {};
            found.read = await fetch(address).then(a => a.text(), () => "refused");
            const opaque = await fetch(address, {mode: "no-cors"}).catch(() => null);
            found.opaque = opaque ? opaque.type : "refused";
            const frame = document.createElement("iframe");
            frame.src = address;
            document.body.append(frame);
            await new Promise(done => { frame.onload = done; setTimeout(done, 3000); });
            try { found.frame = frame.contentDocument.title; } catch { found.frame = "refused"; }
            return found;
        }""",
        serving.address,
    )
    assert found["read"] == "refused"
    assert found["frame"] in ("refused", "", None)
    assert [frame for frame in page.frames if "x" in (frame.title() or "")] == []
    page.close()
