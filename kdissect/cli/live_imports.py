"""What a live run imports and reads later, imported and read at its start.

Once privileges are given up, this process may have no right to read the files of Python and of
kdissect: they may be in root's home. What is wrong is told at the start, too, not hours later.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from importlib import import_module
from pwd import struct_passwd
from typing import Final

from kdissect.errors import KdissectError
from kdissect.live.credentials import IS_LINUX, all_credentials
from kdissect.live.privileges import drop_privileges
from kdissect.protocol.notation import keep_files

# What the stages and Arrow import when they first meet what it is for.
LATE: Final = (
    "kdissect.live.counting.lines",
    "kdissect.live.counting.meters",
    "kdissect.live.files.rotation",
    "kdissect.live.memory",
    "kdissect.live.shedding",
    "kdissect.messages.generated_readers",
    "kdissect.tls.session",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyarrow.parquet",
)
# What TLS is decrypted with, where that is installed.
OPTIONAL: Final = (
    "cryptography.exceptions",
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.ciphers.algorithms",
    "cryptography.hazmat.primitives.ciphers.modes",
)
# What keeps libraries from starting threads when they are imported: jemalloc in Arrow, OpenBLAS.
NO_THREADS: Final = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
# Exit codes of a process that tries it.
CAN: Final = 0
CANNOT: Final = 1


def import_all(modules: Collection[str], tables: Collection[str]) -> None:
    """Import the modules and what they import later, for rows of these tables.

    Raises KdissectError for what this process cannot read.
    """
    for name in (*modules, *LATE):
        try:
            import_module(name)
        except (ImportError, OSError) as error:
            raise KdissectError(
                f"{name} cannot be imported by the user {os.geteuid()}, whom kdissect runs as: "
                f"{error}; it has to be where that user can read it, for example in /opt/kdissect"
            ) from error
    if "bodies" in tables:
        from kdissect.messages.telemetry import metrics_definition

        metrics_definition()


def keep_all(modules: Collection[str], tables: Collection[str]) -> None:
    """Also import what is for TLS, which may not be installed, and read the protocol's files."""
    import_all(modules, tables)
    for name in OPTIONAL:
        with suppress(ImportError):
            import_module(name)
    keep_files()


def can_import_as(user: struct_passwd, modules: Collection[str], tables: Collection[str]) -> bool:
    """Whether that user can import and read it all; tried in a process of its own.

    One that cannot become the user says yes: that error is not about files.
    """
    child = os.fork()
    if child == 0:
        code = CAN
        try:
            drop_privileges(user)
            code = CANNOT
            keep_all(modules, tables)
            code = CAN
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CAN


def import_without_threads(
    user: struct_passwd, modules: Collection[str], tables: Collection[str]
) -> None:
    """Import and read it all as root, for that user, who cannot.

    Libraries are told to start no threads; raises KdissectError when one does all the same.
    """
    for name, value in NO_THREADS.items():
        before = os.environ.get(name)
        is_list = name == "JE_ARROW_MALLOC_CONF" and before
        os.environ[name] = f"{before},{value}" if is_list else value
    keep_all(modules, tables)
    if IS_LINUX and len(threads := all_credentials()) > 1:
        raise KdissectError(
            f"{cannot_read(user)} (imported with privileges, they start {threads[-1]}, which would "
            "keep those)"
        )


def cannot_read(user: struct_passwd) -> str:
    """The beginning of an error."""
    return (
        f"the user {user.pw_name!r} cannot read the files of kdissect or of its Python; install "
        "them where that user can, for example in /opt/kdissect"
    )
