"""Topic ids as text, as in Kafka's tools and files."""

import base64
import binascii

from kdissect.messages.metadata_topics import ID_SIZE


def id_of(text: str) -> bytes:
    """Parse a topic id; raises ValueError.

    >>> id_of("AAAAAAAAAAAAAAAAAAAAAQ")[-1]
    1
    """
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no topic id") from error
    if len(raw) != ID_SIZE:
        raise ValueError(f"{text!r} is no topic id")
    return raw
