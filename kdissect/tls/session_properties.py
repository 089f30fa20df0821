"""Reported properties of a TLS connection."""

from typing import NamedTuple


class SessionProperties(NamedTuple):
    """Known properties of a connection's TLS; "" and None if unknown.

    `tls_bytes` and `encrypted_bytes` are by direction: together with the plaintext they are all
    bytes fed. `undecrypted` is the reason why encrypted bytes were not decrypted.
    """

    client_direction: int
    version: str
    server_name: str
    alpn: str
    cipher: str
    is_resumed: bool | None
    tls_bytes: tuple[int, int]
    encrypted_bytes: tuple[int, int]
    plaintext_bytes: int
    undecrypted: str
