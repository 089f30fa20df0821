"""The pages of `--metrics`, for Prometheus.

Nothing listens unless `serve` is called, and then on one address only.
"""

from typing import Any, Final

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from kdissect.errors import OutputError
from kdissect.live.counting.first_pages import SCRAPER
from kdissect.live.counting.protobuf_page import CONTENT_TYPE, is_preferred
from kdissect.live.counting.sampled_metrics import SampledMetrics
from kdissect.live.http_server import Listening, Server
from kdissect.live.metrics_socket import LOOPBACK, Bound, bind, reason

LONGEST_AGENT: Final = 100  # characters of a scraper's user agent


def serve(metrics: Collector, address: str = LOOPBACK, port: int = 0) -> Server:
    """Serve the metrics at ``http://address:port/metrics``.

    No address means loopback, port 0 a free one. Raises OutputError if it cannot listen.
    """
    return serve_at(bind(address, port), metrics)


def serve_at(bound: Bound, metrics: Collector) -> Server:
    """Serve at a socket of `metrics_socket.bind`, which the server then owns and closes."""
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        listening = Listening(bound)
    except OSError as error:
        bound.close()
        raise OutputError(f"--metrics: {reason(error)}") from error
    listening.set_app(app_of(registry, metrics))
    return Server(listening)


def app_of(registry: CollectorRegistry, metrics: Collector) -> Any:
    """The library's application; it records the scraper that a page is made for.

    It has no protobuf: a scraper that prefers that gets ours, with native histograms.
    """
    make_page = make_wsgi_app(registry)

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        agent = environ.get("HTTP_USER_AGENT", "")[:LONGEST_AGENT]
        SCRAPER.set((environ.get("REMOTE_ADDR", ""), agent))
        if isinstance(metrics, SampledMetrics) and is_preferred(environ.get("HTTP_ACCEPT", "")):
            start_response("200 OK", [("Content-Type", CONTENT_TYPE)])
            return [metrics.protobuf_page()]
        return make_page(environ, start_response)

    return app
