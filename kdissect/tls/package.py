"""The package that decrypts, which not everybody has installed."""

from typing import Final

MISSING: Final = 'decrypting TLS needs the package cryptography: pip install "kdissect[tls]"'


def has_package() -> bool:
    """Whether `cryptography` can be imported."""
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
    except ImportError:
        return False
    return True
