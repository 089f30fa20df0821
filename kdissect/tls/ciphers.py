"""`Opener`: decrypt records of one direction under one set of keys.

The only module that needs the package `cryptography`, which is imported when the first opener is
created. An opener's only state is what TLS 1.0 chains from record to record: the caller counts.

    additional data = 8 bytes sequence number, type, version, 2 bytes plaintext length   (1.2)
                    = the record's header                                                (1.3)
"""

import hmac
from typing import Any, Final

from kdissect.tls.derivation import TLS_1_0, TLS_1_3, RecordKeys
from kdissect.tls.suites import CBC, Suite

BLOCK: Final = 16
EXPLICIT_NONCE: Final = 8
INNER_TYPE: Final = 1  # the byte after the content in TLS 1.3


class Opener:
    """Decrypts records; base class, with one subclass for each kind of protection.

    `overhead` is the length of a record beyond its content, without header, if that is the same for
    every record without padding; else -1. `prefix` is the part of it before the content.
    """

    overhead = -1
    prefix = 0

    def open(self, kind: int, version: int, sequence: int, body: bytes) -> tuple[int, bytes] | None:
        """Type and content of a record; None if it is not authentic under this number."""
        raise NotImplementedError

    def pass_over(self, body: bytes) -> None:
        """Skip a record that was not decrypted; b"" if it was not captured whole."""


class AeadOpener(Opener):
    """AES-GCM (RFC 5288), AES-CCM (RFC 6655), ChaCha20-Poly1305 (RFC 7905) of TLS 1.2."""

    def __init__(self, suite: Suite, keys: RecordKeys) -> None:
        self._cipher = make_aead(suite, keys.key)
        self._iv = keys.iv
        self.prefix = 0 if len(keys.iv) == 12 else EXPLICIT_NONCE
        self.overhead = self.prefix + suite.tag_size

    def open(self, kind: int, version: int, sequence: int, body: bytes) -> tuple[int, bytes] | None:
        size = len(body) - self.overhead
        if size < 0:
            return None
        number = sequence.to_bytes(8, "big")
        explicit = body[: self.prefix]
        nonce = self._iv + explicit if explicit else nonce_of(self._iv, sequence)
        extra = number + bytes([kind]) + version.to_bytes(2, "big") + size.to_bytes(2, "big")
        content = self._cipher.open(nonce, body[self.prefix :], extra)
        return None if content is None else (kind, content)


class Tls13Opener(Opener):
    """Any AEAD of TLS 1.3 (RFC 8446, 5.2): the true type is the last byte that is not zero."""

    def __init__(self, suite: Suite, keys: RecordKeys) -> None:
        self._cipher = make_aead(suite, keys.key)
        self._iv = keys.iv
        self.overhead = suite.tag_size + INNER_TYPE

    def open(self, kind: int, version: int, sequence: int, body: bytes) -> tuple[int, bytes] | None:
        if len(body) < self.overhead:
            return None
        header = bytes([kind]) + version.to_bytes(2, "big") + len(body).to_bytes(2, "big")
        inner = self._cipher.open(nonce_of(self._iv, sequence), body, header)
        if inner is None:
            return None
        content = inner.rstrip(b"\x00")
        # All zeros is a protocol error; the record has no type then, and nothing is lost.
        return (content[-1], content[:-1]) if content else (0, b"")


class CbcOpener(Opener):
    """AES-CBC with HMAC, the MAC before (RFC 5246, 6.2.3.2) or after encryption (RFC 7366)."""

    def __init__(self, suite: Suite, keys: RecordKeys, version: int, is_mac_outside: bool) -> None:
        from cryptography.hazmat.primitives.ciphers import algorithms

        self._algorithm = algorithms.AES(keys.key)
        self._mac_key = keys.mac_key
        self._mac = suite.mac
        self._mac_size = suite.mac_size
        self._is_mac_outside = is_mac_outside
        # TLS 1.0 continues from the last block of the previous record; b"" if unknown.
        self._is_chained = version == TLS_1_0
        self._iv = keys.iv
        # A MAC outside does not cover that block: it is the one of the record before this number.
        self._iv_sequence = 0
        self.prefix = 0 if self._is_chained else BLOCK

    def open(self, kind: int, version: int, sequence: int, body: bytes) -> tuple[int, bytes] | None:
        sealed, tag = body, b""
        if self._is_mac_outside:
            sealed, tag = body[: -self._mac_size], body[-self._mac_size :]
            if not self._is_authentic(kind, version, sequence, sealed, tag):
                return None
            if self._is_chained and sequence != self._iv_sequence:
                self._chain(sealed, sequence)
                return None
        padded = self._decrypted(sealed)
        if padded is None:
            return None
        end = len(padded) - padded[-1] - 1
        if self._is_mac_outside:
            content = padded[: max(end, 0)]
        else:
            end -= self._mac_size
            # A padding longer than the record would reach before its start.
            if end < 0:
                return None
            content, tag = padded[:end], padded[end : end + self._mac_size]
            if not self._is_authentic(kind, version, sequence, content, tag):
                return None
        if self._is_chained:
            self._chain(sealed, sequence)
        return kind, content

    def pass_over(self, body: bytes) -> None:
        if self._is_chained and not self._is_mac_outside:
            self._iv = body[-BLOCK:] if len(body) >= BLOCK else b""

    def _chain(self, sealed: bytes, sequence: int) -> None:
        self._iv = sealed[-BLOCK:]
        self._iv_sequence = sequence + 1

    def _decrypted(self, sealed: bytes) -> bytes | None:
        """Decrypt, including MAC and padding; None unless it is a whole number of blocks."""
        from cryptography.hazmat.primitives.ciphers import Cipher, modes

        iv = self._iv
        if not self._is_chained:
            iv, sealed = sealed[:BLOCK], sealed[BLOCK:]
        if len(iv) != BLOCK or not sealed or len(sealed) % BLOCK:
            return None
        decryptor = Cipher(self._algorithm, modes.CBC(iv)).decryptor()
        return bytes(decryptor.update(sealed) + decryptor.finalize())

    def _is_authentic(
        self, kind: int, version: int, sequence: int, content: bytes, tag: bytes
    ) -> bool:
        header = bytes([kind]) + version.to_bytes(2, "big") + len(content).to_bytes(2, "big")
        message = sequence.to_bytes(8, "big") + header + content
        return hmac.compare_digest(hmac.digest(self._mac_key, message, self._mac), tag)


class Aead:
    """An AEAD cipher of `cryptography` that returns None on failure."""

    def __init__(self, cipher: Any) -> None:
        from cryptography.exceptions import InvalidTag

        self._cipher = cipher
        self._refusals = (InvalidTag, ValueError)

    def open(self, nonce: bytes, sealed: bytes, extra: bytes) -> bytes | None:
        try:
            return bytes(self._cipher.decrypt(nonce, sealed, extra))
        except self._refusals:
            return None


def make_opener(
    version: int, suite: Suite, keys: RecordKeys, is_mac_outside: bool = False
) -> Opener:
    """Create the opener of a direction."""
    if version >= TLS_1_3:
        return Tls13Opener(suite, keys)
    if suite.kind == CBC:
        return CbcOpener(suite, keys, version, is_mac_outside)
    return AeadOpener(suite, keys)


def make_aead(suite: Suite, key: bytes) -> Aead:
    from cryptography.hazmat.primitives.ciphers import aead

    if suite.cipher == "AES-GCM":
        return Aead(aead.AESGCM(key))
    if suite.cipher == "AES-CCM":
        return Aead(aead.AESCCM(key, tag_length=suite.tag_size))
    return Aead(aead.ChaCha20Poly1305(key))


def nonce_of(iv: bytes, sequence: int) -> bytes:
    """The 12-byte nonce of a record if it is not sent (RFC 8446, 5.3)."""
    return (int.from_bytes(iv, "big") ^ sequence).to_bytes(12, "big")
