"""What SASL tokens say in clear (RFC 4616, RFC 5802): the user name, and nothing else is kept."""

from kdissect.exchanges.memory import ConnectionState


def learn_user(state: ConnectionState, token: bytes) -> None:
    """Take the user name out of a SASL token, where it is in clear (PLAIN, SCRAM); nothing else."""
    if state.sasl_user:
        return
    mechanism = state.sasl_mechanism
    if mechanism == "PLAIN":
        parts = token.split(b"\0")
        if len(parts) == 3:
            state.sasl_user = parts[1].decode("utf-8", "backslashreplace")
    elif mechanism.startswith("SCRAM"):
        for part in token.split(b","):
            if part.startswith(b"n="):
                name = part[2:].replace(b"=2C", b",").replace(b"=3D", b"=")
                state.sasl_user = name.decode("utf-8", "backslashreplace")
                return
