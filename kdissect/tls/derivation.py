"""Key derivation: the PRF of TLS 1.0 to 1.2 (RFC 2246, 5246), HKDF of TLS 1.3 (RFC 8446)."""

import hashlib
import hmac
from typing import NamedTuple

from kdissect.tls.suites import CBC, Suite

TLS_1_0 = 0x0301
TLS_1_2 = 0x0303
TLS_1_3 = 0x0304


class RecordKeys(NamedTuple):
    """Keys that protect the records of one direction; `mac_key` is b"" for AEAD."""

    key: bytes
    iv: bytes
    mac_key: bytes


def keys_of_master(
    version: int, suite: Suite, master: bytes, client_random: bytes, server_random: bytes
) -> tuple[RecordKeys, RecordKeys]:
    """Client and server keys of a session of TLS 1.0 to 1.2 (RFC 5246, 6.3)."""
    iv_size = _fixed_iv_size(version, suite)
    sizes = [suite.mac_size, suite.mac_size, suite.key_size, suite.key_size, iv_size, iv_size]
    randoms = server_random + client_random
    block = prf(version, suite.hash, master, b"key expansion", randoms, sum(sizes))
    parts: list[bytes] = []
    for size in sizes:
        parts.append(block[:size])
        block = block[size:]
    return RecordKeys(parts[2], parts[4], parts[0]), RecordKeys(parts[3], parts[5], parts[1])


def keys_of_secret(suite: Suite, secret: bytes) -> RecordKeys:
    """Keys derived from a traffic secret of TLS 1.3 (RFC 8446, 7.3)."""
    key = expand_label(suite.hash, secret, b"key", suite.key_size)
    return RecordKeys(key, expand_label(suite.hash, secret, b"iv", 12), b"")


def next_secret(suite: Suite, secret: bytes) -> bytes:
    """Traffic secret after a KeyUpdate (RFC 8446, 7.2)."""
    return expand_label(suite.hash, secret, b"traffic upd", len(secret))


def prf(version: int, name: str, secret: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """The pseudorandom function; `name` is the hash used by TLS 1.2."""
    if version >= TLS_1_2:
        return p_hash(name, secret, label + seed, size)
    # The halves share the middle byte of a secret of odd length.
    half = (len(secret) + 1) // 2
    left = p_hash("md5", secret[:half], label + seed, size)
    right = p_hash("sha1", secret[len(secret) - half :], label + seed, size)
    return bytes(one ^ other for one, other in zip(left, right, strict=True))


def p_hash(name: str, secret: bytes, seed: bytes, size: int) -> bytes:
    """P_hash of RFC 5246, 5."""
    found = b""
    link = seed
    while len(found) < size:
        link = hmac.digest(secret, link, name)
        found += hmac.digest(secret, link + seed, name)
    return found[:size]


def expand_label(name: str, secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label of RFC 8446, 7.1, with an empty context."""
    label = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\x00"
    found = block = b""
    count = -(-size // hashlib.new(name).digest_size)
    for number in range(1, count + 1):
        block = hmac.digest(secret, block + info + bytes([number]), name)
        found += block
    return found[:size]


def _fixed_iv_size(version: int, suite: Suite) -> int:
    """Bytes of the key block used as IV: the part that records do not carry themselves."""
    if suite.kind == CBC:
        return 16 if version == TLS_1_0 else 0
    return 12 if suite.cipher == "ChaCha20-Poly1305" else 4
