"""Python's TLS for the clients that are given an `ssl.SSLContext`."""

import ssl
from typing import Any

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def with_context(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with an `ssl_context` in place of those that begin with `tls_`: `tls_ca` (PEM),
    `tls_version` (1.2 or 1.3; absent: as both sides like) and `tls_ciphers` (OpenSSL's names).
    """
    known = {name: value for name, value in settings.items() if not name.startswith("tls_")}
    if "tls_ca" not in settings:
        return known
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=settings["tls_ca"])
    if "tls_version" in settings:
        context.minimum_version = context.maximum_version = VERSIONS[settings["tls_version"]]
    if "tls_ciphers" in settings:
        context.set_ciphers(settings["tls_ciphers"])
    return known | {"ssl_context": context}
