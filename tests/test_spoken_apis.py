"""APIs that a connection has used, as bits in two 64-bit numbers."""

import pytest

from kdissect.exchanges.connection_state import BITS_EACH, ConnectionState, has_spoken, note_spoken
from kdissect.streams.events import Connection


@pytest.mark.parametrize("key", range(2 * BITS_EACH))
def test_a_used_api_is_distinguished_from_all_others(key: int) -> None:
    state = ConnectionState(Connection(1, 0, bytes(12), 0, 1))
    note_spoken(state, key)
    assert [one for one in range(-2, 130) if has_spoken(state, one)] == [key]
