"""Pseudonyms of names and addresses that take as many bytes as what they replace.

So they fit into the packets of a capture, in which no length has to change, and a table of such a
capture has the same pseudonyms as one that is anonymized itself. All depend on a secret key:

    15 bytes and more   "name-" and digits of a keyed hash (HMAC-SHA-256): 40 bits at least
    12 to 14 bytes      "n-" and digits of the hash
    up to 11 bytes      of letters, digits, ".", "_" and "-": a keyed permutation of all such names
                        of that length (a Feistel network, as in FF1 of NIST SP 800-38G), so no two
                        names get the same one; of other characters: letters of the hash
    ids of 16 bytes     the hash
    IPv4 addresses      each number is another one of as many digits, which depends on those before
                        it: networks stay networks, as with Crypto-PAn
    IPv6 addresses      the hash, in fd00::/8

Loopback, multicast and unspecified addresses stay of their kind.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
IN_LETTERS: Final = re.compile(r"[A-Za-z0-9._-]+")
LONG: Final = 15
HASHED: Final = 12
ROUNDS: Final = 10
IPV4: Final = re.compile(r"(/?)((?:\d{1,3}\.){3}\d{1,3})")
UUID_SIZE: Final = 16
# Ids that Kafka gives: zero, one (of the metadata log) and other small numbers.
LARGEST_PUBLIC_ID: Final = 100
LOOPBACK: Final = 127
FIRST_MULTICAST: Final = 224
NOT_FIRST: Final = frozenset({0, LOOPBACK, *range(FIRST_MULTICAST, 256)})
KNOWN_NETWORKS: Final = 10_000
MAPPED: Final = bytes(10) + b"\xff\xff"
LINK_LOCAL: Final = b"\xfe\x80"
LOCAL: Final = b"\xfd"


class Cipher:
    """Pseudonyms by a key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._orders: dict[tuple[bytes, str], dict[int, int]] = {}

    def hash(self, kind: str, data: bytes) -> bytes:
        """A keyed hash of 32 bytes; those of different kinds are unrelated."""
        return hmac.digest(self._key, kind.encode() + b"\0" + data, hashlib.sha256)

    def text(self, text: str, size: int | None = None) -> str:
        """ASCII in place of a text, of `size` bytes: its size in UTF-8, unless given."""
        data = text.encode("utf-8", "surrogatepass")
        size = len(data) if size is None else size
        address = IPV4.fullmatch(text)
        if address and size == len(data) and is_ipv4(address[2]):
            return address[1] + self.ipv4_text(address[2])
        if size >= LONG:
            return f"name-{self._digits(data, size - 5)}"
        if size >= HASHED:
            return f"n-{self._digits(data, size - 2)}"
        if size == len(data) and IN_LETTERS.fullmatch(text):
            return self._permuted(text)
        found = int.from_bytes(self.hash("letters", data), "big")
        return "".join(numerals(found, size))

    def uuid(self, data: bytes) -> bytes:
        """16 bytes in place of an id."""
        if int.from_bytes(data, "big") <= LARGEST_PUBLIC_ID:
            return data
        return self.hash("uuid", data)[:UUID_SIZE]

    def uuid_text(self, text: str) -> str:
        """The same for an id as Kafka writes it, in base64; other texts as texts."""
        try:
            data = base64.urlsafe_b64decode(text + "==")
        except ValueError:
            return self.text(text)
        if len(data) != UUID_SIZE:
            return self.text(text)
        return base64.urlsafe_b64encode(self.uuid(data)).rstrip(b"=").decode()

    def address(self, data: bytes) -> bytes:
        """An address of 4 or 16 bytes in place of another."""
        if len(data) == 4:
            return bytes(self._ipv4(data))
        if data.startswith(MAPPED):
            return MAPPED + bytes(self._ipv4(data[12:]))
        if int.from_bytes(data, "big") <= 1 or data[0] == 0xFF:
            return data
        if data.startswith(LINK_LOCAL):
            return data[:8] + self.hash("ip", data)[:8]
        return LOCAL + self.hash("ip", data)[: len(data) - 1]

    def address_text(self, text: str) -> str:
        """An address in place of another; other texts as texts."""
        try:
            packed = ip_address(text).packed
        except ValueError:
            return self.text(text)
        return str(ip_address(self.address(packed)))

    def ipv4_text(self, text: str) -> str:
        """An IPv4 address with as many digits in each place."""
        return ".".join(map(str, self._ipv4(bytes(numbers_of(text)))))

    def _ipv4(self, data: bytes) -> list[int]:
        return [self._octet(data[:place], data[place]) for place in range(4)]

    def _octet(self, before: bytes, number: int) -> int:
        """Another number of as many digits; the first one says what kind of address it is."""
        if not before and (number in (0, LOOPBACK) or number >= FIRST_MULTICAST):
            return number
        digits = str(len(str(number)))
        order = self._orders.get((before, digits))
        if order is None:
            low, high = {"1": (0, 10), "2": (10, 100), "3": (100, 256)}[digits]
            among = [one for one in range(low, high) if before or one not in NOT_FIRST]
            mixed = sorted(
                among, key=lambda one: self.hash("octet" + digits, before + bytes([one]))
            )
            # Each is replaced by the next one of a secret order, so none by itself.
            order = dict(zip(mixed, [*mixed[1:], mixed[0]], strict=True))
            if len(self._orders) < KNOWN_NETWORKS:
                self._orders[before, digits] = order
        return order[number]

    def _digits(self, data: bytes, count: int) -> str:
        digest = self.hash("text", data)
        if count <= 2 * len(digest):
            return digest.hex()[:count]
        return hashlib.shake_256(digest).hexdigest((count + 1) // 2)[:count]

    def _permuted(self, text: str) -> str:
        """Another text of as many letters; a permutation of all of them."""
        values = [LETTERS.index(letter) for letter in text]
        if len(values) == 1:
            mixed = sorted(range(len(LETTERS)), key=lambda one: self.hash("letter", bytes([one])))
            return LETTERS[mixed[values[0]]]
        half = len(values) // 2
        left, right = value_of(values[:half]), value_of(values[half:])
        sizes = half, len(values) - half
        for number in range(ROUNDS):
            size = sizes[number % 2]
            mark = bytes([len(values), number]) + right.to_bytes(8, "big")
            added = int.from_bytes(self.hash("round", mark), "big")
            left, right = right, (left + added) % len(LETTERS) ** size
        return "".join([*numerals(left, half), *numerals(right, len(values) - half)])


def numbers_of(address: str) -> list[int]:
    """The four numbers of an IPv4 address."""
    return [int(one) for one in address.split(".")]


def is_ipv4(text: str) -> bool:
    """Whether four numbers are an address, written without zeros in front."""
    numbers = numbers_of(text)
    return max(numbers) < 256 and ".".join(map(str, numbers)) == text


def value_of(places: Sequence[int]) -> int:
    """The number that letters stand for."""
    value = 0
    for place in places:
        value = value * len(LETTERS) + place
    return value


def numerals(value: int, count: int) -> list[str]:
    """The last `count` letters of a number."""
    found = []
    for _ in range(count):
        value, place = divmod(value, len(LETTERS))
        found.append(LETTERS[place])
    return found[::-1]
