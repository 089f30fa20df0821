"""Counters and histograms for Prometheus, and the HTTP endpoint that serves them.

Nothing listens unless `serve` is called, and then on one address only. Longer than other modules:
counters and the endpoint share the lock of a scrape.
"""

import socket
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from copy import deepcopy
from http import HTTPStatus
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

import pyarrow as pa
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from kdissect.errors import OutputError
from kdissect.live.counting.bucket_builder import Gathering
from kdissect.live.counting.counters import Counters
from kdissect.live.counting.first_pages import FirstPages, Scraper
from kdissect.live.counting.metric_declarations import COUNTER, GAUGE, HISTOGRAM, METRICS, Metric
from kdissect.live.counting.samples import (
    Distribution,
    Growing,
    Values,
    empty,
    histograms_of,
    label_counts,
    status_counts,
    status_gauges,
    values_of,
)
from kdissect.live.counting.time_buckets import Vocabulary
from kdissect.live.counting.waiting import Waiting
from kdissect.live.listener import Listener, LiveCapture, Status
from kdissect.live.metrics_socket import LOOPBACK, Bound, bind, reason
from kdissect.tls.agreement import REASONS

LABELS: Final = 100
# Timeout of a client that sends nothing.
READER_TIMEOUT_S: Final = 10
# Maximum number of concurrent clients; further ones are rejected, and those that take longer than
# the timeout are cut off: a client that sends single bytes would keep its slot for a week.
READERS: Final = 8
LONGEST_LINE: Final = 65_536  # bytes of a request line, as http.server has it
# Errors that a client can cause: it disconnects, reads too slowly, or sends an invalid request.
READERS_FAULTS: Final = (OSError, HTTPException)
# Whose page is made in this thread; None where the metrics are collected without one.
SCRAPER: Final[ContextVar[Scraper | None]] = ContextVar("SCRAPER", default=None)
LONGEST_AGENT: Final = 100  # characters of a scraper's name for itself


def build() -> dict[str, str]:
    """Build information."""
    try:
        number = version("kdissect")
    except PackageNotFoundError:
        number = ""
    spec = find_spec("kdissect.framing.frames")
    is_plain = spec is None or spec.origin is None or spec.origin.endswith(".py")
    return {"version": number, "build": "plain" if is_plain else "compiled"}


# Read on import: at a scrape this process may have no permission to read the files of kdissect.
BUILD: Final = build()


class MetricsListener(Listener, Collector):
    """Counts since the start; `labels` clients and topics have a name, see `LabelNames`.

    Counts grow at each tick. `collect` may be called from any thread.
    """

    tables = frozenset({"exchanges", "partitions", "errors"})

    def __init__(self, labels: int = LABELS) -> None:
        self._counters = Counters(labels)
        # A topic's id as a label would be replaced by its name, and take room for good.
        self._gathering = Gathering(self._counters.names, shows_ids=False)
        self._waiting = Waiting({}, {})
        self._packets = 0
        self._packet_ns = -1
        self._growing = Growing()
        self._values: dict[str, Values] = {}
        self._names = Vocabulary(*(each.now() for each in self._counters.names))
        self._lock = threading.Lock()
        self._first_pages = FirstPages(time.monotonic())

    def begin(self, watcher: LiveCapture) -> None:
        self._waiting = Waiting(watcher.dissector.exchanges.states, watcher.names)

    def take(self, table: str, batch: pa.RecordBatch) -> None:
        self._gathering.take(table, batch)

    def tick(self, status: Status) -> None:
        rows = self._gathering.take_bucket(0, status.now_ns, 0)
        self._waiting.grace.add(rows.exchanges, self._counters.names.apis)
        self._waiting.look(status.now_ns)
        values = self._status_values(status)
        names = self._counters.names
        values |= label_counts(names)
        with self._lock:
            self._counters.add(rows)
            self._values = values
            self._names = Vocabulary(*(each.now() for each in names))

    def finish(self, status: Status) -> None:
        self.tick(status)

    def collect(self) -> Iterable[Family]:
        """All metrics, with their current values; series that a scraper has not had yet are 0."""
        with self._lock:
            totals, values = deepcopy(self._counters.totals), self._values
            names = self._names
        values = values | values_of(totals, names)
        distributions = histograms_of(totals, names)
        scraper = SCRAPER.get()
        if scraper is not None:
            values, distributions = self._begun_at_0(values, distributions, scraper)
        for metric in METRICS:
            yield family(metric, values.get(metric.name, []), distributions.get(metric.name, []))

    def _begun_at_0(
        self,
        values: dict[str, Values],
        distributions: dict[str, list[Distribution]],
        scraper: Scraper,
    ) -> tuple[dict[str, Values], dict[str, list[Distribution]]]:
        """The same with 0 in place of counts that are new to the scraper."""
        counters = [metric.name for metric in METRICS if metric.kind == COUNTER and metric.labels]
        keys = [(name, labels) for name in counters for labels, _ in values.get(name, ())]
        keys += [(name, one.labels) for name, some in distributions.items() for one in some]
        with self._lock:
            new = self._first_pages.new_on(keys, scraper, time.monotonic())
        begun = {
            name: [(labels, 0 if (name, labels) in new else value) for labels, value in some]
            for name, some in values.items()
        }
        return begun, {
            name: [empty(one) if (name, one.labels) in new else one for one in some]
            for name, some in distributions.items()
        }

    def _status_values(self, status: Status) -> dict[str, Values]:
        if status.balance.packets > self._packets:
            self._packets, self._packet_ns = status.balance.packets, status.now_ns
        gauges = status_gauges(status, self._packet_ns)
        gauges["kdissect_waiting_requests"] = self._waiting.count
        late = [one for one in self._waiting.late.values() if one.waits.due_ns < status.now_ns]
        gauges["kdissect_late_connections"] = len(late)
        values: dict[str, Values] = {name: [((), value)] for name, value in gauges.items()}
        values["kdissect_undecrypted_connections"] = [
            ((reason,), status.undecrypted.reasons.get(reason, 0)) for reason in REASONS
        ]
        for name, counts in status_counts(status).items():
            values[name] = [
                (labels, self._growing.grown(name, labels, count))
                for labels, count in counts.items()
            ]
        return values


def family(metric: Metric, values: Values, distributions: list[Distribution]) -> Family:
    """One metric with its samples, as a family of the library."""
    if metric.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        for one in distributions:
            histogram.add_metric(one.labels, one.buckets, one.total)
        return histogram
    if metric.kind not in (COUNTER, GAUGE):
        return InfoMetricFamily(metric.name, metric.meaning, value=BUILD)
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    made = kind(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in values:
        made.add_metric(labels, value)
    return made


class Server:
    """Serves on `address` and `port` until it is closed."""

    def __init__(self, listening: "Listening") -> None:
        self._listening = listening
        self.address, self.port = listening.server_address[:2]
        self._thread = threading.Thread(
            target=listening.serve_forever, name="metrics", daemon=True, args=(0.1,)
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._listening.shutdown()
        self._listening.server_close()
        self._thread.join()


class Listening(ThreadingMixIn, WSGIServer):
    """An HTTP server with one thread per client, without name lookups."""

    daemon_threads = True

    def __init__(self, bound: Bound) -> None:
        self.address_family = bound.family
        self._places = threading.BoundedSemaphore(READERS)
        self._began: dict[Any, float] = {}
        super().__init__(bound.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()
        self.server_activate()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            self._began[request] = time.monotonic()
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)
            self._cut_off()

    def _cut_off(self) -> None:
        """Disconnect clients that take too long; their threads release the slots."""
        for request, began in list(self._began.items()):
            if time.monotonic() - began > READER_TIMEOUT_S:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._began.pop(request, None)
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], READERS_FAULTS):
            super().handle_error(request, client_address)


class Answer(ServerHandler):
    """One response; a client that disconnects, or does not read, is not an error of the server."""

    request_handler: WSGIRequestHandler  # the base logs there

    def log_exception(self, exc_info: Any) -> None:
        if not isinstance(exc_info[1], READERS_FAULTS):
            super().log_exception(exc_info)


class Handler(WSGIRequestHandler):
    """Logs no requests: stderr belongs to the command."""

    timeout = READER_TIMEOUT_S

    def handle(self) -> None:
        """Handle one request, as the base class does, with an `Answer`."""
        self.raw_requestline = self.rfile.readline(LONGEST_LINE + 1)
        if len(self.raw_requestline) > LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            # Both have the types of their base classes.
            output: Any = self.wfile
            server: Any = self.server
            answer = Answer(self.rfile, output, self.get_stderr(), self.get_environ(), False)
            answer.request_handler = self
            answer.run(server.get_app())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's word
        pass


def serve(listener: MetricsListener, address: str = LOOPBACK, port: int = 0) -> Server:
    """Serve the metrics at ``http://address:port/metrics``.

    No address means loopback, port 0 a free one. Raises OutputError if it cannot listen.
    """
    return serve_at(bind(address, port), listener)


def serve_at(bound: Bound, listener: MetricsListener) -> Server:
    """Serve at a socket of `metrics_socket.bind`, which the server then owns and closes."""
    registry = CollectorRegistry()
    registry.register(listener)
    try:
        listening = Listening(bound)
    except OSError as error:
        bound.close()
        raise OutputError(f"--metrics: {reason(error)}") from error
    listening.set_app(app_of(registry))
    return Server(listening)


def app_of(registry: CollectorRegistry) -> Any:
    """The library's application; it records the scraper that a page is made for."""
    make_page = make_wsgi_app(registry)

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        agent = environ.get("HTTP_USER_AGENT", "")[:LONGEST_AGENT]
        SCRAPER.set((environ.get("REMOTE_ADDR", ""), agent))
        return make_page(environ, start_response)

    return app
