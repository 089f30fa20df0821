"""Serve S3 on loopback by moto, until stdin is closed; the first line of stdout is the address."""

import logging
import sys
from typing import Any
from unittest import mock

from moto.moto_server import threaded_moto_server
from moto.server import ThreadedMotoServer


class RightName:
    """An application whose response to the end of a multipart upload has the name that S3 gives it.

    That of moto 5.2 is called ...Response, which makes Arrow retry again and again.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        from werkzeug.wrappers import Response

        response = Response.from_app(self.application, environ)
        if environ["REQUEST_METHOD"] == "POST" and "uploadId" in environ["QUERY_STRING"]:
            body = response.get_data().replace(b"UploadResponse", b"UploadResult")
            response.set_data(body)
        return response(environ, start_response)


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    plain = threaded_moto_server.DomainDispatcherApplication
    with mock.patch.object(
        threaded_moto_server, "DomainDispatcherApplication", lambda make: RightName(plain(make))
    ):
        server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        sys.stdout.write(f"{host}:{port}\n")
        sys.stdout.flush()
        sys.stdin.read()
        server.stop()


if __name__ == "__main__":
    main()
