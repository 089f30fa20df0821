"""An HTTP server on one socket for a bounded number of clients: of metrics, and of pages.

Nothing listens unless a `Listening` is made.
"""

import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from socketserver import ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from kdissect.live.metrics_socket import Bound

# Timeout of a client that sends nothing.
READER_TIMEOUT_S: Final = 10
# Maximum number of concurrent clients; further ones are rejected, and those that take longer than
# the timeout are cut off: a client that sends single bytes would keep its slot for a week.
READERS: Final = 8
LONGEST_LINE: Final = 65_536  # bytes of a request line, as http.server has it
# Errors that a client can cause: it disconnects, reads too slowly, or sends an invalid request.
READERS_FAULTS: Final = (OSError, HTTPException)


class Server:
    """Serves on `address` and `port` until it is closed."""

    def __init__(self, listening: "Listening") -> None:
        self._listening = listening
        self.address, self.port = listening.server_address[:2]
        self._thread = threading.Thread(
            target=listening.serve_forever, name="metrics", daemon=True, args=(0.1,)
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving; idempotent."""
        self._listening.shutdown()
        self._listening.server_close()
        self._thread.join()


class Listening(ThreadingMixIn, WSGIServer):
    """An HTTP server with one thread per client, without name lookups."""

    daemon_threads = True

    def __init__(self, bound: Bound) -> None:
        self.address_family = bound.family
        self._places = threading.BoundedSemaphore(READERS)
        self._began: dict[Any, float] = {}
        super().__init__(bound.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()
        self.server_activate()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            self._began[request] = time.monotonic()
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)
            self._cut_off()

    def _cut_off(self) -> None:
        """Disconnect clients that take too long; their threads release the slots."""
        for request, began in list(self._began.items()):
            if time.monotonic() - began > READER_TIMEOUT_S:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._began.pop(request, None)
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], READERS_FAULTS):
            super().handle_error(request, client_address)


class Answer(ServerHandler):
    """One response; a client that disconnects, or does not read, is not an error of the server."""

    request_handler: WSGIRequestHandler  # the base logs there

    def log_exception(self, exc_info: Any) -> None:
        if not isinstance(exc_info[1], READERS_FAULTS):
            super().log_exception(exc_info)


class Handler(WSGIRequestHandler):
    """Logs no requests: stderr belongs to the command."""

    timeout = READER_TIMEOUT_S

    def handle(self) -> None:
        """Handle one request, as the base class does, with an `Answer`."""
        self.raw_requestline = self.rfile.readline(LONGEST_LINE + 1)
        if len(self.raw_requestline) > LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
        elif self.parse_request():
            # Both have the types of their base classes.
            output: Any = self.wfile
            server: Any = self.server
            answer = Answer(self.rfile, output, self.get_stderr(), self.get_environ(), False)
            answer.request_handler = self
            answer.run(server.get_app())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's word
        pass
