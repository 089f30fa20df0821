"""What is told of a connection that was TLS."""

from typing import NamedTuple


class SessionProperties(NamedTuple):
    """What is known of a connection's TLS; "" and None are for what is not.

    `tls_bytes` and `encrypted_bytes` are by direction: with the plaintext that was given out they
    are all bytes that came in. `undecrypted` says why there is no plaintext of encrypted bytes.
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
