"""Two hosts on one link, for captures on it."""

from collections.abc import Iterator

import pytest

from tests.sources.namespaces import Host, needs_packet_sockets, two_hosts


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    needs_packet_sockets()
    with two_hosts() as made:
        yield made
