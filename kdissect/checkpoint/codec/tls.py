"""Values of the TLS stage: sessions without keys, so that no secret is written."""

from typing import Final

from kdissect.checkpoint.codec.streams import CHUNK, CONNECTION, PROBLEMS
from kdissect.encoding.choices import Nothing, OneOf
from kdissect.encoding.classes import Fields, Inline, Ref, declare
from kdissect.encoding.kinds import (
    BOOL,
    BYTES,
    INT,
    TEXT,
    Bytes,
    Dict,
    Fixed,
    Many,
    Maybe,
    named,
)
from kdissect.streams.events import Gap
from kdissect.tls.agreement import Agreement
from kdissect.tls.direction import DirectionDecryptor
from kdissect.tls.hellos import Hello, Messages
from kdissect.tls.keylog import KeyLog
from kdissect.tls.masters import Masters
from kdissect.tls.records import Hole, Mark, Record, RecordCutter
from kdissect.tls.reports import Reports
from kdissect.tls.session import Session
from kdissect.tls.stage import Watch

BYTE_ARRAY: Final = Bytes(bytearray)
# By direction, as a mutable list.
INTS: Final = Fixed(INT, INT, made=list)
GAP_OR_NONE: Final = Ref(Gap, or_none=True)
# Set by `Session.move_to`.
NO_KEYS: Final = KeyLog()
NO_MASTERS: Final = Masters()

MARK: Final = named(Mark, position=INT, time_ns=INT, packet=INT, ordinal=INT, capture=INT)
MARKS: Final = Many(MARK)
RECORD: Final = named(Record, kind=INT, version=INT, body=BYTES, position=INT, marks=MARKS)
HOLE: Final = named(
    Hole, position=INT, length=INT, captured=INT, records=INT, gap=GAP_OR_NONE, mark=MARK
)
HELLO: Final = named(
    Hello,
    version=INT,
    random=BYTES,
    session_id=BYTES,
    suite=INT,
    compression=INT,
    extensions=Dict(INT, BYTES),
)
RECORD_CUTTER: Final = Fields(
    RecordCutter,
    ints="_position _next _hole_position _hole_captured _damaged",
    bools="_is_searching",
    _buffer=BYTE_ARRAY,
    _marks=MARKS,
    _gap=GAP_OR_NONE,
)
MESSAGES: Final = Fields(Messages, _buffer=BYTE_ARRAY)
HALF: Final = Fields(
    DirectionDecryptor,
    ints="direction taken encrypted given _waiting_size _failures _position _lost _lost_records",
    bools="is_changed is_given_up is_hello_lost _is_count_sure has_early_data _is_padded",
    cutter=Inline(RECORD_CUTTER),
    messages=Inline(MESSAGES),
    # The keys of records: a session with keys is not written.
    epochs=Nothing(),
    waiting=Many(OneOf(record=(Record, RECORD), hole=(Hole, HOLE))),
    hole=Maybe(HOLE),
    _connection=CONNECTION,
)
OF_REPORTS: Final = Fields(
    Reports,
    problems=PROBLEMS,
    _connection=CONNECTION,
    _told=Many(TEXT, set),
)
REPORTS: Final = Ref(Reports)
AGREEMENT: Final = Fields(
    Agreement,
    ints="client version suite_number",
    alpn=TEXT,
    is_resumed=Maybe(BOOL),
    early_data=TEXT,
    hellos=Fixed(Maybe(HELLO), Maybe(HELLO), made=list),
    lack=TEXT,
    _reports=REPORTS,
    left_out={"_keys": NO_KEYS, "_masters": NO_MASTERS},
)
OF_SESSION: Final = Fields(
    Session,
    connection=CONNECTION,
    _reports=REPORTS,
    _agreement=Inline(AGREEMENT),
    _reason=TEXT,
    _halves=Fixed(Inline(HALF), Inline(HALF)),
)
SESSION: Final = Ref(Session)
OF_WATCH: Final = Fields(
    Watch,
    Watch,
    seen=INTS,
    first=Fixed(Many(CHUNK), Many(CHUNK), made=list),
    begin=INTS,
)
WATCH: Final = Maybe(Inline(OF_WATCH))

TLS_VALUES: Final[tuple[Fields, ...]] = (
    RECORD_CUTTER, MESSAGES, HALF, OF_REPORTS, AGREEMENT, OF_SESSION, OF_WATCH,
)  # fmt: skip
declare(9, OF_REPORTS)
declare(10, OF_SESSION)
