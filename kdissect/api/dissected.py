"""Exchanges in full: columns as attributes, bodies and records decoded on request."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from kdissect.capture.files import Source, open_captures
from kdissect.errors import DecodeError
from kdissect.exchanges.api_mismatches import doubt_of, guarded
from kdissect.exchanges.exchange import SUSPECT, Exchange
from kdissect.limits import DECODED_BYTES
from kdissect.messages.decompression_budget import Unpacking
from kdissect.messages.extracted import ErrorFact
from kdissect.messages.full_bodies import full_body, topic_names
from kdissect.messages.old_bodies import full_old_body
from kdissect.messages.partitions import Partition
from kdissect.messages.redaction import has_secrets
from kdissect.messages.secret_places import Place, secret_places
from kdissect.pipeline import Balance, Options, feed_all, make_balance, make_dissector
from kdissect.protocol.readers import ValueBudget
from kdissect.sql.conditions import check_condition
from kdissect.sql.row_filter import chosen_rows
from kdissect.tables.batches import BatchBuilder
from kdissect.tables.row_buffers import address_text
from kdissect.tables.rows import ExchangeRows
from kdissect.tables.schemas import EXCHANGES, TIME

TIMES: Final = tuple(column.name for column in EXCHANGES.columns if column.type == TIME)


class DissectedExchange:
    """An exchange: the columns of the `exchanges` table as attributes, and its two bodies.

    Beside the columns it has client_ip, client_port, broker_ip and broker_port, `partitions`
    (with their `batches`) and `errors`, as output by the exchanges stage. Times are in ns since
    1970; missing values are None. `dialect` is 0, or the protocol of `messages.old_protocols` that
    the exchange uses.
    """

    def __init__(
        self,
        columns: dict[str, Any],
        exchange: Exchange,
        names: dict[bytes, str],
        limit: int = DECODED_BYTES,
        unpacking: Unpacking | None = None,
    ) -> None:
        self._names = names
        self._limit = limit
        self._unpacking = unpacking
        self.columns = columns | _endpoints(exchange)
        self._packed = exchange.partitions
        self.errors: list[ErrorFact] = exchange.errors or []
        self._protocol = exchange.group_protocol
        self.dialect = int(exchange.dialect)
        self._doubt = doubt_of(exchange)
        self._is_unsure = bool(self._doubt or exchange.status & SUSPECT or self.dialect)
        self._frames = {"request": exchange.request_frame, "response": exchange.response_frame}

    def __getattr__(self, name: str) -> Any:
        columns: dict[str, Any] = self.__dict__.get("columns", {})
        if name not in columns:
            raise AttributeError(f"an exchange has no {name!r}")
        return columns[name]

    def __repr__(self) -> str:
        if self.api_version is None:
            return f"<{self.api} {self.outcome}>"
        return f"<{self.api} v{self.api_version} {self.outcome}, id {self.correlation_id}>"

    @cached_property
    def partitions(self) -> list[Partition]:
        """Its topic-partitions, computed on first access."""
        return self._packed.rows() if self._packed else []

    @property
    def request(self) -> dict[str, Any] | None:
        """The request's body in full, see `body`."""
        return self.body("request")

    @property
    def response(self) -> dict[str, Any] | None:
        """The response's body in full, see `body`."""
        return self.body("response")

    def body(self, side: str) -> dict[str, Any] | None:
        """The request's or response's body (`side`), decoded on each call; None when missing.

        None too for a response without request that may be of several versions.

        Credentials are redacted; `records` fields are lists of batches with their records. Topics
        have the names learnt so far. Possible credentials of another API, where an exchange is
        inconsistent, are left out too (docs/privacy.md). Beyond the limit `decoded_bytes` the rest
        is left out, and counted in ``left_out``. Raises DecodeError without data.
        """
        data = self.raw_frame(side)
        if not data or self.api_key is None:
            return None
        request = self.raw_frame("request")
        is_response = side == "response"
        if self.dialect:
            return full_old_body(
                self.dialect, self.api_key, data, is_response, request, self._limit,
                self._unpacking,
            )  # fmt: skip
        if self.api_version is None:
            return None
        names = topic_names(self._packed, self._names)
        try:
            body = full_body(
                self.api_key, self.api_version, data, is_response, request, names, self._protocol,
                self._limit, self._unpacking,
            )  # fmt: skip
        except DecodeError as error:
            # It may be of another API than its header says.
            error.withhold()
            raise
        found: dict[str, Any] = guarded(body, self._doubt)
        return found

    def shown(self) -> ValueBudget:
        """Limits of the bytes of a body as JSON, see `messages.full_bodies.jsonable`."""
        return ValueBudget(self._limit)

    def frame_bytes(self, side: str) -> bytes:
        """The frame of `side` without its size field, header included; b"" when missing.

        b"" too when credentials or records may be in it: also where not both sides were decoded to
        their ends, as the header may be wrong then.
        """
        if self._is_unsure or has_secrets(self.api_key, side):
            return b""
        return self.raw_frame(side)

    def hidden_places(self, side: str) -> list[Place] | None:
        """Places of `raw_frame` with credentials; None where any byte may be one.

        Records are not among them.
        """
        if self._is_unsure or self.api_key is None or self.api_version is None:
            return None
        try:
            return secret_places(
                self.api_key, self.api_version, self.raw_frame(side), side == "response"
            )
        except DecodeError:
            return None

    def topic_names(self) -> dict[str, str]:
        """Names of topics learnt so far, by their ids as text."""
        return topic_names(self._packed, self._names)

    def raw_frame(self, side: str) -> bytes:
        """Like `frame_bytes`, without restrictions: the bytes of the capture, for tools."""
        frame = self._frames[side]
        return b"" if frame is None else frame.data


def dissect(
    source: Source | Sequence[Source], where: str | None = None, **options: Any
) -> Iterator[DissectedExchange]:
    """Iterate over the exchanges of captures, as they complete.

    An exchange with records of a topic whose name arrives later is held until then, with those
    after it, unless that is more than 32 MiB away: which records of Kafka's internal topics are
    decoded does not depend on the order.

    `where` is an SQL condition over the columns of the `exchanges` table; other keywords are those
    of `Options`.
    """
    yield from Dissection(source, where, **options)


class Dissection:
    """Iterator of `dissect`; afterwards accounts for the bytes read.

    Without `waits` no exchange waits for the name of a topic. With `keeps_records` partitions have
    the bytes that their batches are in.
    """

    def __init__(
        self,
        source: Source | Sequence[Source],
        where: str | None = None,
        waits: bool = True,
        keeps_records: bool = False,
        **options: Any,
    ) -> None:
        if where:
            check_condition(where, "--where")
        self._where = where
        self._options = Options(**options, tables=())
        self._dissector = make_dissector(
            self._options,
            collects=True,
            keeps_frames=True,
            waits=waits,
            keeps_records=keeps_records,
            parks=True,
        )
        self._capture = open_captures(source)
        names = self._dissector.exchanges.names
        self._builder = BatchBuilder(EXCHANGES, self._capture.names, names)

    def __iter__(self) -> Iterator[DissectedExchange]:
        for _ in feed_all(self._capture, self._dissector, self._options):
            yield from self._chosen(self._dissector.take_exchanges())

    @property
    def balance(self) -> Balance:
        """Account of the bytes read so far."""
        return make_balance(self._dissector)

    @property
    def unpacking(self) -> Unpacking:
        """Budget for unpacking records."""
        return self._dissector.unpacking

    def _chosen(self, exchanges: list[Exchange]) -> Iterator[DissectedExchange]:
        if not exchanges:
            return
        rows = ExchangeRows()
        for exchange in exchanges:
            rows.add(exchange)
        batch = self._builder.batch(rows)
        if self._where:
            chosen = chosen_rows(batch, self._where)
            batch = batch.take(chosen)
            exchanges = [exchanges[row] for row in chosen.to_pylist()]
        names = self._dissector.exchanges.names
        limit = self._options.limits.decoded_bytes
        for columns, exchange in zip(_with_plain_times(batch).to_pylist(), exchanges, strict=True):
            yield DissectedExchange(columns, exchange, names, limit, self.unpacking)


def _with_plain_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with times as int64, which need no pandas to become Python values."""
    for name in TIMES:
        index = batch.schema.get_field_index(name)
        batch = batch.set_column(index, name, batch.column(index).cast(pa.int64()))
    return batch


def _endpoints(exchange: Exchange) -> dict[str, Any]:
    flow = exchange.connection.flow
    width = (len(flow) - 4) // 2
    addresses = (address_text(flow[:width]), address_text(flow[width : 2 * width]))
    ports = (int.from_bytes(flow[-4:-2], "big"), int.from_bytes(flow[-2:], "big"))
    client = exchange.request_direction
    return {
        "client_ip": addresses[client],
        "client_port": ports[client],
        "broker_ip": addresses[1 - client],
        "broker_port": ports[1 - client],
    }
