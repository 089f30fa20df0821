"""The socket of the metrics server, bound before privileges are dropped.

A port below 1024 may need them. The server thread must not have them, so it starts later, in
`metrics_server`. Clients cannot connect before that: a bound socket does not listen.
"""

import errno
import socket
from typing import Final

from kdissect.errors import OutputError

LOOPBACK: Final = "127.0.0.1"
Bound = socket.socket


def bind(address: str = LOOPBACK, port: int = 0, option: str = "--metrics") -> Bound:
    """Bind a TCP socket; raises OutputError with advice that begins with the option.

    No address means loopback, port 0 a free one.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    place = f"[{address}]:{port}" if family == socket.AF_INET6 else f"{address}:{port}"
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # After a restart, connections of the previous process may still be closing.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address or LOOPBACK, port))
    except OSError as error:
        bound.close()
        raise OutputError(f"{option} {place}: {reason(error)}") from error
    except OverflowError as error:
        bound.close()
        raise OutputError(f"{option} {place}: ports are 0 to 65535") from error
    return bound


def reason(error: OSError) -> str:
    """Reason why listening is not possible, with advice."""
    if error.errno == errno.EADDRINUSE:
        return "the port is in use by another program; choose another one"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; 127.0.0.1 is for itself, 0.0.0.0 for everybody"
    if error.errno == errno.EACCES:
        return "ports below 1024 are root's; choose a higher one"
    return error.strerror or str(error)
