"""The package that decrypts, which not everybody has installed."""

from kdissect.system.extras import missing_extra


def missing_text() -> str:
    """The error where TLS is to be decrypted without the package."""
    return missing_extra("TLS decryption", "tls")


def has_package() -> bool:
    """Whether `cryptography` can be imported."""
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
    except ImportError:
        return False
    return True
