"""A table as it is declared, and columns that several tables have."""

from typing import Final, NamedTuple

from kdissect.messages.columns import INT64, TEXT, Column


class Table(NamedTuple):
    """One table: the meaning of a row, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]
    is_default: bool = True

    @property
    def stored(self) -> tuple[Column, ...]:
        """Columns that are packed a row at a time, in order."""
        return tuple(column for column in self.columns if column.stored)


CAPTURE = Column(
    "capture", TEXT, "", "file or interface of the row's first packet", source="x.capture"
)
CONNECTION_ID = Column(
    "connection_id", INT64, "",
    "the connection: number of its first packet (counted over all files of the run)",
    source="x.connection_id",
)  # fmt: skip
API_NAME: Final = (
    "API name; api-N for an unknown key N; Vendor-Name for a vendor's API, if ApiVersions on "
    "this connection identified the vendor"
)
EXCHANGE_ID = Column(
    "exchange_id", INT64, "",
    "the exchange: number of its first packet times 100 000, plus its place in that packet",
    source="x.exchange_id",
)  # fmt: skip
ERROR_NAME = Column("error", TEXT, "", "name of error_code", stored=False)
