"""A relay before a broker that can swallow an answer: it was done, and the client never hears.

The broker is captured behind it, where requests and answers are whole.
"""

import asyncio
import threading
from typing import NamedTuple

HOST = "127.0.0.1"
PRODUCE = 0
SIZE_BYTES = 4
SIZE_LIMIT = 1_000_000  # larger frames are not part of a scenario: foreign bytes were read as one


class Header(NamedTuple):
    """Start of every request, from version 1 of its header on."""

    api_key: int
    correlation_id: int
    client_id: str


class Relay:
    """Listens on one loopback port and passes frames on to another, in a thread."""

    def __init__(self) -> None:
        self.swallowed: list[Header] = []
        self._wanted: str | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self, port: int, behind: int) -> None:
        """Return once it listens."""
        self._behind = behind
        self._thread.start()
        serving = asyncio.start_server(self._serve, HOST, port)
        asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)

    def swallow(self, client_id: str) -> None:
        """Keep the next answer to a Produce of a client to itself, and close the connection."""
        self._wanted = client_id

    def stop(self) -> None:
        """End it and all connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection(HOST, self._behind)
        unanswerable: list[Header] = []
        requests = asyncio.ensure_future(self._pass_requests(reader, broker_writer, unanswerable))
        try:
            await self._pass_answers(broker_reader, writer, unanswerable)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client left while an answer was on its way, or the recording is over
        finally:
            requests.cancel()
            writer.close()
            broker_writer.close()

    async def _pass_requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        unanswerable: list[Header],
    ) -> None:
        while frame := await read_frame(reader):
            header = read_header(frame)
            if header.api_key == PRODUCE and header.client_id == self._wanted:
                self._wanted = None
                unanswerable.append(header)
            writer.write(frame)
            await writer.drain()
        writer.write_eof()

    async def _pass_answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        unanswerable: list[Header],
    ) -> None:
        while frame := await read_frame(reader):
            correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
            if any(header.correlation_id == correlation_id for header in unanswerable):
                self.swallowed += unanswerable
                return
            writer.write(frame)
            await writer.drain()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """A frame with its size field; nothing when the connection ended."""
    try:
        head = await reader.readexactly(SIZE_BYTES)
        size = int.from_bytes(head, "big")
        if size > SIZE_LIMIT:
            raise ValueError(f"a frame of {size} bytes")
        return head + await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def read_header(frame: bytes) -> Header:
    """The header of a request."""
    size = int.from_bytes(frame[12:14], "big", signed=True)
    return Header(
        int.from_bytes(frame[4:6], "big", signed=True),
        int.from_bytes(frame[8:12], "big", signed=True),
        frame[14 : 14 + max(size, 0)].decode(),
    )
