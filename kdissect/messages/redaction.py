"""Takes credentials out of decoded bodies: SASL payloads, SCRAM proofs, tokens' HMACs, passwords.

Applied where a body is decoded in full, so that no output can hold one.
"""

from typing import Final

# Fields that are credentials wherever they stand.
SECRET_FIELDS: Final = frozenset(
    {"auth_bytes", "hmac", "salt", "salted_password", "stored_key", "server_key"}
)
# A config whose name holds one of these words has a credential as its value; Kafka's own names
# are like ssl.keystore.password, sasl.jaas.config, ssl.keystore.key, ssl.truststore.certificates.
SECRET_WORDS: Final = ("password", "secret", "jaas", "token", "credential", "keystore.key")


def redacted(value: object) -> object:
    """Give a decoded body with ``<redacted, 32 bytes>`` in place of every credential."""
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_secret_config = _names_secret(value)
    return {
        name: _mark(field)
        if name in SECRET_FIELDS or (is_secret_config and name == "value")
        else redacted(field)
        for name, field in value.items()
    }


def _names_secret(struct: dict[object, object]) -> bool:
    """Whether a struct is a config entry whose value nobody should see."""
    if struct.get("is_sensitive"):
        return True
    name = struct.get("name", struct.get("config_name"))
    return isinstance(name, str) and any(word in name.lower() for word in SECRET_WORDS)


def _mark(value: object) -> object:
    if isinstance(value, bytes | str):
        size = len(value.encode("utf-8", "backslashreplace") if isinstance(value, str) else value)
        return f"<redacted, {size} bytes>"
    return None if value is None else "<redacted>"
