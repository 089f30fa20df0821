"""Client and broker addresses of connections."""

from collections.abc import Mapping

import numpy as np

from kdissect.exchanges.connection_state import ConnectionState
from kdissect.live.counting.columns import KnownNames
from kdissect.live.counting.time_buckets import ConnectionColumns
from kdissect.streams.events import OPENER
from kdissect.tables.row_buffers import address_text

UNKNOWN = ("", "")


class Addresses:
    """Addresses of open connections, in `states`, and of those that `ended`."""

    def __init__(
        self, states: Mapping[int, ConnectionState], ended: ConnectionColumns, names: KnownNames
    ) -> None:
        self._states = states
        self._ended = ended
        self._names = names

    def of(self, connection_id: int) -> tuple[str, str]:
        """Client and broker, with ports; "" if unknown."""
        state = self._states.get(connection_id)
        if state is not None:
            return addresses_of(state)
        ended, texts = self._ended, self._names.texts
        found = np.flatnonzero(ended.connection_id == connection_id)
        if not len(found):
            return UNKNOWN
        at = found[-1]
        return (
            endpoint_text(texts[ended.client[at]], int(ended.client_port[at])),
            endpoint_text(texts[ended.broker[at]], int(ended.broker_port[at])),
        )


def addresses_of(state: ConnectionState) -> tuple[str, str]:
    """Client and broker; while the roles are unknown, the opener is taken for the client."""
    flow = state.connection.flow
    width = (len(flow) - 4) // 2
    opener = address_text(flow[:width]), int.from_bytes(flow[-4:-2], "big")
    accepter = address_text(flow[width : 2 * width]), int.from_bytes(flow[-2:], "big")
    sides = endpoint_text(*opener), endpoint_text(*accepter)
    return sides if state.request_direction in (-1, OPENER) else sides[::-1]


def endpoint_text(address: str, port: int) -> str:
    """Format an address and a port.

    >>> endpoint_text("10.0.0.4", 51812), endpoint_text("::1", 9092)
    ('10.0.0.4:51812', '[::1]:9092')
    """
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
