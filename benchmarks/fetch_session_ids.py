"""Fetch sessions (KIP-227) of replayed messages: each copy has ids of its own, as brokers give."""

from typing import Final

from kdissect.api.dissected import DissectedExchange

# Ids are positive, of 31 bits.
LARGEST_SESSION: Final = (1 << 31) - 1
COPY_STEP: Final = 7919


def session_place(exchange: DissectedExchange, is_request: bool, data: bytes) -> int:
    """Where the id of a fetch session is in a message, -1 if it has none."""
    if exchange.api != "Fetch":
        return -1
    body = exchange.request if is_request else exchange.response
    number = (body or {}).get("session_id") or 0
    return data.find(number.to_bytes(4, "big")) if number else -1


def makes_session(exchange: DissectedExchange) -> bool:
    """Return whether a broker has made a fetch session: a full fetch, of epoch 0, got an id."""
    if exchange.api != "Fetch":
        return False
    asked, answered = exchange.request or {}, exchange.response or {}
    return asked.get("session_epoch") == 0 and bool(answered.get("session_id"))


def in_session(data: bytes, place: int, copy: int) -> bytes:
    r"""The message with the id of a fetch session that no other copy has.

    >>> in_session(bytes((0, 0, 0, 9, 5)), 0, 0), in_session(b"no session", -1, 3)
    (b'\x00\x00\x00\n\x05', b'no session')
    """
    if place < 0:
        return data
    number = int.from_bytes(data[place : place + 4], "big")
    made = (number + copy * COPY_STEP) % LARGEST_SESSION + 1
    return data[:place] + made.to_bytes(4, "big") + data[place + 4 :]
