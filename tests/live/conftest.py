"""Hosts for captures on an interface."""

from collections.abc import Iterator

import pytest

from tests.live.worker_sets import quiet_cable
from tests.sources.namespaces import Host, needs_packet_sockets, two_hosts


@pytest.fixture
def cable() -> Iterator[tuple[Host, Host]]:
    """A client and a broker, and a cable with nothing on it but what a test sends."""
    needs_packet_sockets()
    with two_hosts() as hosts:
        quiet_cable(hosts)
        yield hosts
