"""Relay on the loopback: forwards between an address and a broker."""

import contextlib
import selectors
import socket
import threading

WAIT_SECONDS = 0.1
SIZE = 65536


class Relay:
    """Listens on `host`, on any port, and passes bytes on to `broker` ("host:port")."""

    def __init__(self, host: str, broker: str) -> None:
        self._listener = socket.create_server((host, 0), family=socket.AF_INET6)
        self._listener.setblocking(False)
        name, _, port = broker.rpartition(":")
        self._broker = (name, int(port))
        self._other: dict[socket.socket, socket.socket] = {}
        self._choice = selectors.DefaultSelector()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    @property
    def address(self) -> str:
        """Address for clients."""
        host, port = self._listener.getsockname()[:2]
        return f"[{host}]:{port}"

    def __enter__(self) -> "Relay":
        self._choice.register(self._listener, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for one in [*self._other, self._listener]:
            one.close()
        self._choice.close()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._choice.select(WAIT_SECONDS):
                one = key.fileobj
                assert isinstance(one, socket.socket)
                if one is self._listener:
                    self._accept()
                elif one in self._other:
                    self._pass_on(one)

    def _accept(self) -> None:
        client = self._listener.accept()[0]
        client.setblocking(True)
        broker = socket.create_connection(self._broker)
        self._other |= {client: broker, broker: client}
        for one in (client, broker):
            self._choice.register(one, selectors.EVENT_READ)

    def _pass_on(self, one: socket.socket) -> None:
        other = self._other[one]
        data = b""
        with contextlib.suppress(OSError):
            data = one.recv(SIZE)
            other.sendall(data)
        if not data:
            for side in (one, other):
                self._choice.unregister(side)
                del self._other[side]
                side.close()
