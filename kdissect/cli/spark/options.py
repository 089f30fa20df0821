"""The options of the commands on Spark: session, and contents of the dataset."""

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import click

from kdissect.cli import options
from kdissect.cli.ending import NUMBERS
from kdissect.cli.options import F
from kdissect.limits import parse_number
from kdissect.spark.sessions import LOCAL, MEMORY, failures, imported, session, tasks_only
from kdissect.spark.single_task import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Handler: TypeAlias = Callable[[int, FrameType | None], Any]

SPLIT_SIZE: Final = "256M"
BAR: Final = "spark.ui.showConsoleProgress"
INTERRUPTED: Final = threading.Event()  # set by `interrupt`, for this session


class Place:
    """The Spark master and its settings; for the pipeline, or for `answers`.

    Answers have no logs in a local session: its errors are reported.
    """

    def __init__(
        self,
        master: str,
        memory: str,
        settings: dict[str, str],
        has_bar: bool,
        *,
        answers: bool = False,
    ) -> None:
        self.master = master
        self.memory = memory
        chosen = {} if answers else tasks_only(master)
        self.settings = {**chosen, BAR: str(has_bar).lower(), **settings}
        self.answers = answers

    @contextmanager
    def session(self) -> "Iterator[SparkSession]":
        """The active session, else a new one, which is stopped at the end."""
        is_there = imported().getActiveSession() is not None
        INTERRUPTED.clear()
        started: list[SparkSession] = []
        with quiet_interrupts() as begin:
            try:
                spark = session(self.master, memory=self.memory, settings=self.settings)
                if not is_there:
                    started.append(spark)
                    expect_end(spark)
                    if self.answers and is_local(spark):
                        silence(spark)
                begin()
                yield spark
            except BaseException as error:
                ending = ending_in(error)
                if ending is None:
                    raise
                INTERRUPTED.set()
                logging.disable()
                for one in started:
                    silence(one)
                # Cleanup of an interrupted call may fail before its exception ends.
                raise ending from None
            finally:
                for one in started:
                    stop(one)


def ending_in(error: BaseException) -> KeyboardInterrupt | None:
    """What a signal's handler has raised, where that is the error or a reason of it."""
    if INTERRUPTED.is_set():
        return error if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt()
    seen: list[BaseException] = []
    reasons: list[BaseException | None] = [error]
    while reasons:
        one = reasons.pop()
        if isinstance(one, KeyboardInterrupt):
            return one
        if one is not None and one not in seen:
            seen.append(one)
            reasons += [one.__context__, one.__cause__]
    return None


@contextmanager
def quiet_interrupts() -> Iterator[Callable[[], None]]:
    """Signals end the command, but only once the returned `begin` was called, and without logs.

    A session that starts is not interrupted: its JVM could be left. PySpark's own handler of SIGINT
    calls the JVM inside the call that it interrupts, and Py4J logs a stack trace for that and for
    each call after it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *NUMBERS)}
    # The JVM, which is started now, unblocks the signals for itself.
    signal.pthread_sigmask(signal.SIG_BLOCK, before)

    def begin() -> None:
        signal.signal(signal.SIGINT, interrupt)
        for number in NUMBERS:
            if callable(handler := before[number]):
                signal.signal(number, unlogged(handler))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)

    try:
        yield begin
    finally:
        for number, handler in before.items():
            if handler is not None:  # else it is not Python's
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, before)
        logging.disable(logging.NOTSET)


def unlogged(handler: Handler) -> Handler:
    """A handler of a signal, without Py4J's log entries of what it interrupts."""

    def handle(number: int, frame: FrameType | None) -> None:
        logging.disable()
        handler(number, frame)

    return handle


def interrupt(*_: object) -> NoReturn:
    """Raise KeyboardInterrupt without a log entry of Py4J (a signal handler)."""
    logging.disable()
    INTERRUPTED.set()
    raise KeyboardInterrupt


def expect_end(spark: "SparkSession") -> None:
    """Keep PySpark's accumulator server from printing a stack trace when the JVM ends before it.

    The signal that ends this process ends the JVM, too, and pending calls of the JVM fail.
    """
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is None:
        return
    tell = server.handle_error

    def handle_error(request: object, address: object) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            tell(request, address)

    server.handle_error = handle_error


def stop(spark: "SparkSession") -> None:
    """Stop a session; errors and warnings after an interrupt are a consequence of it."""
    if not INTERRUPTED.is_set():
        spark.stop()
        return
    with suppress(*failures()), warnings.catch_warnings(action="ignore"):
        spark.stop()


def silence(spark: "SparkSession") -> None:
    """Keep Spark from logging the tasks that its end kills as failed, with their stack traces."""
    # The interrupted call may have left its connection to the JVM broken.
    with suppress(*failures()):
        spark.sparkContext.setLogLevel("OFF")


def pairs(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Read ``key=value`` texts (a click callback)."""
    made = {}
    for text in texts:
        key, is_pair, value = text.partition("=")
        if not key or not is_pair:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE")
        made[key] = value
    return made


def byte_count(_: click.Context, __: click.Parameter, text: str) -> int:
    """Read ``64M``, ``1G``, ``100000`` (a click callback)."""
    number = parse_number(text)
    if number < 1:
        raise click.BadParameter(f"{text!r} is no number of bytes; write it like 64M, 1G")
    return number


def on_spark(command: F) -> F:
    """Add the options for Spark; the command gets a `Place`."""

    @wraps(command)
    def with_place(
        master: str, memory: str, spark_settings: dict[str, str], progress: bool | None,
        **values: Any,
    ) -> Any:  # fmt: skip
        has_bar = sys.stderr.isatty() if progress is None else progress
        return command(**values, place=Place(master, memory, spark_settings, has_bar))

    added: tuple[Callable[[F], F], ...] = (
        options.progress("Show Spark's progress bar on stderr."),
        click.option(
            "--setting",
            "spark_settings",
            callback=pairs,
            multiple=True,
            metavar="KEY=VALUE",
            help="Spark setting, like spark.executor.memory=4g; repeatable.",
        ),
        click.option(
            "--memory",
            default=MEMORY,
            show_default=True,
            metavar="SIZE",
            help="Memory of the driver, in which local[N] runs everything.",
        ),
        click.option(
            "--master",
            default=LOCAL,
            show_default=True,
            metavar="URL",
            help="local[N], spark://HOST:PORT, or sc://HOST:PORT of Spark Connect. Under "
            "spark-submit, and where SPARK_REMOTE is set, their session is used.",
        ),
    )
    wrapped: F = with_place
    for option in added:
        wrapped = option(wrapped)
    return wrapped


def into_dataset(command: F) -> F:
    """Add the options of datasets; the command gets `dataset`, and the others as `making`.

    These are keywords of `kdissect.spark.pipeline.dissect`.
    """

    @wraps(command)
    def with_making(
        tap: str | None, tables: list[str] | None, split_size: int, settings: options.Settings,
        payload: bool, verify_crc: bool, full_hash: bool, **values: Any,
    ) -> Any:  # fmt: skip
        making = {
            "tap": tap, "split_size": split_size, "full_hash": full_hash,
            "payload": payload, "verify_crc": verify_crc, **settings,
            **({"tables": tables} if tables else {}),
        }  # fmt: skip
        return command(**values, making=making)

    wrapped: F = options.verifying(options.decoding(with_making))
    wrapped = click.option(
        "--split-size",
        "--piece-size",  # its name before 0.1
        "split_size",
        callback=byte_count,
        default=SPLIT_SIZE,
        show_default=True,
        metavar="BYTES",
        help="Size of the splits of a capture, one per task.",
    )(wrapped)
    wrapped = click.option(
        "--full-hash",
        is_flag=True,
        help="Know copies of captures above 16 MB by all of their bytes, not by samples.",
    )(wrapped)
    wrapped = options.making(wrapped)
    wrapped = click.option(
        "--tap",
        metavar="REGEX",
        help="Finds the name of the tap in a path: its group `tap`, else its first group, else "
        "the whole match.  [default: by the names of rotated files]",
    )(wrapped)
    return click.option(
        "-o",
        "--output",
        "dataset",
        required=True,
        metavar="DATASET",
        help="Directory of the dataset, writable by all executors; it may exist.",
    )(wrapped)
