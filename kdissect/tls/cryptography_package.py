"""The optional package that decrypts TLS."""

from kdissect.system.extras import missing_extra


def missing_text() -> str:
    """Error text for decryption of TLS without the package."""
    return missing_extra("TLS decryption", "tls")


def has_package() -> bool:
    """Return whether `cryptography` can be imported."""
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
    except ImportError:
        return False
    return True
