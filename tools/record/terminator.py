"""A proxy that terminates TLS in front of the broker with OpenSSL, for features Java's TLS lacks.

Encrypt-then-MAC, tickets that resume sessions, and a key log of its own. The broker sees each
client at its own port of another address, so that its log still tells the connections apart.
"""

import asyncio
import ssl
import threading
from pathlib import Path

SEEN_AS = "127.0.0.2"
CHUNK = 65536


class Terminator:
    """Listens on one loopback port and forwards decrypted bytes to another, in a thread."""

    def __init__(self, key_files: list[Path], key_log: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        for file in key_files:
            self._context.load_cert_chain(file)
        self._context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES")  # with SHA-1 too
        self._context.keylog_filename = str(key_log)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self, port: int, behind: int) -> None:
        """Return once it listens."""
        self._behind = behind
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._context)
        asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)

    def stop(self) -> None:
        """End it and all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("peername")[1]
        broker_reader, broker_writer = await asyncio.open_connection(
            "127.0.0.1", self._behind, local_addr=(SEEN_AS, port)
        )
        pumps = pump(reader, broker_writer), pump(broker_reader, writer)
        await asyncio.gather(*pumps, return_exceptions=True)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Relay data until its end, then close the other side the same way."""
    try:
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    finally:
        writer.close()
