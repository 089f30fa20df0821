"""Columns that several analyses have with one meaning."""

from typing import Final

from kdissect.tables.schemas import INT64, TEXT, TIME, Column

CLIENT_IP: Final = Column("client_ip", TEXT, "", "address of the client")
PRODUCER_CLIENT: Final = Column("client_id", TEXT, "", "client id of the producer")
GROUP_ID: Final = Column("group_id", TEXT, "", "consumer group")
TOPIC_OR_ID: Final = Column("topic", TEXT, "", "topic, or its id")
BATCH_RECORDS: Final = Column("records", INT64, "", "records of these batches")
FIRST_REQUEST: Final = Column("first_time", TIME, "", "first request")
LAST_REQUEST: Final = Column("last_time", TIME, "", "last request")
