"""Imports and file reads of a live run, done at its start.

Once privileges are dropped, this process may have no permission to read the files of Python and of
kdissect: they may be in root's home. Errors are reported at the start, too, not hours later.
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
from kdissect.tables.row_writers import writer_classes

# Modules that the stages and Arrow import lazily, on first use.
LATE: Final = (
    "kdissect.live.counting.lines",
    "kdissect.live.counting.meters",
    "kdissect.live.files.rotation",
    "kdissect.live.memory",
    "kdissect.live.shedding",
    "kdissect.tls.session",
    "numpy.ma",  # by numpy.unique
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyarrow.parquet",
)
# Modules for TLS decryption, where installed.
OPTIONAL: Final = (
    "cryptography.exceptions",
    "cryptography.hazmat.primitives.ciphers.aead",
    "cryptography.hazmat.primitives.ciphers.algorithms",
    "cryptography.hazmat.primitives.ciphers.modes",
)
# Settings that stop libraries from starting threads on import: jemalloc in Arrow, OpenBLAS.
NO_THREADS: Final = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
# Exit codes of the test process.
CAN: Final = 0
CANNOT: Final = 1


def import_all(modules: Collection[str], tables: Collection[str]) -> None:
    """Import the modules and their lazy imports, for rows of these tables.

    Raises KdissectError for files that this process cannot read.
    """
    import_modules((*modules, *LATE))
    writer_classes()
    if "bodies" in tables:
        from kdissect.messages.telemetry import metrics_definition

        metrics_definition()


def import_modules(modules: Collection[str]) -> None:
    """Import the modules; raises KdissectError for files that this process cannot read."""
    for name in modules:
        try:
            import_module(name)
        except (ImportError, OSError) as error:
            raise KdissectError(
                f"{name} cannot be imported by the user {os.geteuid()}, whom kdissect runs as: "
                f"{error}; it has to be where that user can read it, for example in /opt/kdissect"
            ) from error


def keep_all(modules: Collection[str], tables: Collection[str]) -> None:
    """Also import the modules for TLS, which may be missing, and read the protocol's files."""
    import_all(modules, tables)
    for name in OPTIONAL:
        with suppress(ImportError):
            import_module(name)
    keep_files()


def can_import_as(user: struct_passwd, modules: Collection[str], tables: Collection[str]) -> bool:
    """Return whether that user can import and read all of it; tested in a separate process.

    A process that cannot become the user returns true: that error is not about files.
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
    """Import and read all of it as root, for a user without permission.

    Libraries are configured to start no threads; raises KdissectError when one does anyway.
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
    """Prefix of the error message."""
    return (
        f"the user {user.pw_name!r} cannot read the files of kdissect or of its Python; install "
        "them where that user can, for example in /opt/kdissect"
    )
