"""The address that metrics are pushed to."""

from typing import Final
from urllib.parse import urlsplit

from kdissect.errors import InvalidArgument

METRICS_PATH: Final = "/v1/metrics"


def endpoint_of(url: str) -> str:
    """The address for metrics of an OTLP receiver over HTTP; raises InvalidArgument.

    >>> endpoint_of("http://localhost:4318"), endpoint_of("https://otel/own/path")
    ('http://localhost:4318/v1/metrics', 'https://otel/own/path')
    """
    try:
        parts = urlsplit(url)
        is_complete = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_complete = False
    if not is_complete:
        raise InvalidArgument(f"--otlp {url!r}: write it like http://localhost:4318")
    return parts._replace(path=METRICS_PATH).geturl() if parts.path in ("", "/") else url


def without_login(url: str) -> str:
    """The address as problems show it: without a user and password.

    >>> without_login("https://me:secret@otel:4318/v1/metrics")
    'https://otel:4318/v1/metrics'
    """
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
