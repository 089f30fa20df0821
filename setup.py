"""Build of the compiled modules; KDISSECT_COMPILE is 1 (default), 0 or require.

1 compiles when a C compiler works and says so when not; require fails without one. The modules are
ordinary Python; mypyc makes one C library of them all, so that calls between them are direct.
All are compiled or none: there is no half-built state. docs/decisions/build.md gives the times.

KDISSECT_PROFILE is a directory for GCC. While it has no counts, the library will count there, when
a program that uses it ends, how often each branch is taken; a build that finds counts is optimized
by them. tools/build_profile.py does the first half.
"""

import gc
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

# Every module that says i64 or mypyc_attr, and those of objects that a test names: it holds both.
COMPILED = """
    capture/interfaces capture/merge capture/packet capture/pcap capture/pcapng capture/scanner
    packets/decoder packets/fragments packets/ip packets/link packets/segment packets/tcp
    packets/tunnels packets/wireless
    sources/ring_blocks
    encoding/choices encoding/classes encoding/documents encoding/kinds encoding/sinks
    encoding/sources
    streams/acknowledged streams/clock streams/connections streams/direction_counts
    streams/duplicates streams/events streams/handshake streams/reassembly_buffer streams/receiver
    streams/recent_chunks streams/resent streams/sequence streams/tcp_analysis
    framing/frame_search framing/frames
    protocol/apis protocol/json_writers protocol/plans protocol/primitives protocol/projections
    protocol/readers protocol/structures protocol/unexpected_nulls
    messages/aborted_batches messages/batch_counts messages/batch_texts messages/batches
    messages/bodies messages/body_texts messages/compressed_frames messages/compression
    messages/declared_roles messages/decompression_budget messages/embedded messages/extracted
    messages/full_bodies messages/group_protocols messages/headers messages/interner
    messages/layout_choice messages/legacy_records messages/memberships messages/message_sets
    messages/metadata_topics messages/offered_keys messages/old_recognition messages/opened_records
    messages/partitions messages/record_columns messages/record_headers messages/record_slices
    messages/records messages/redaction messages/request_fields messages/value_budget
    messages/varints
    exchanges/api_mismatches exchanges/body_reader exchanges/broker_side exchanges/candidates
    exchanges/connection_state exchanges/exchange exchanges/fetches exchanges/latency_parts
    exchanges/layout_fit exchanges/long_polls exchanges/memory_budget exchanges/other_protocols
    exchanges/pairing exchanges/partition_merge exchanges/plausibility
    exchanges/protocol_detection exchanges/request_search exchanges/response_judge
    exchanges/response_search exchanges/sasl exchanges/shared_ids exchanges/topic_name_resolution
    tables/body_rows tables/row_buffers tables/rows tables/shed_counters
    tls/stage
    dissection/body_writer dissection/detail dissection/dissector dissection/exchange_writer
    dissection/cancellation dissection/record_writer dissection/row_sink dissection/totals
    checkpoint/connection_merge checkpoint/left_edge checkpoint/merger
    checkpoint/packed_segments checkpoint/recent_segments checkpoint/split_dissector
    checkpoint/split_sink checkpoint/synchronization
""".split()  # noqa: SIM905  # a line a package
# Modules that the tree does not have, and which module of it writes their source.
GENERATED = {
    "messages/generated_readers": "kdissect.messages.readers_source",
    "tables/generated_writers": "kdissect.tables.writers_source",
}
GENERATED_BASE = Path("build", "generated")
# What one run of the C compiler gets: calls between these packages are inlined. They take about
# as long as each other, so that two cores have as much to do. The rest is mypyc's runtime.
UNITS = {
    "streams": ("capture", "packets", "sources", "encoding", "streams", "framing", "tls"),
    "messages": ("protocol", "messages"),
    "exchanges": ("exchanges", "tables", "dissection", "checkpoint"),
}
# Small functions of mypyc's runtime that are inlined in each unit, by their file: a call of one
# would take as long as what it does. Helpers that no header declares are `static`.
INLINED = {
    "bytes_ops.c": ("CPyBytes_Compare", "Clamp", "CPyBytes_GetSlice"),
    "dict_ops.c": ("CPyDict_Get", "CPyDict_GetWithNone"),
    "list_ops.c": ("CPyList_GetItemInt64", "CPyList_SetItemInt64"),
    "str_ops.c": (
        "_CPyStr_Equal_NoIdentCheck", "CPyStr_Equal", "CPyStr_EqualLiteral", "CPyStr_IsTrue",
        "CPyStr_Size_size_t",
    ),
}  # fmt: skip
# gcc's check for misleading indentation alone doubles the time: mypyc indents by up to 616 spaces.
# No other program overrides a function of the library, so calls inside it can be inlined.
GCC_OPTIONS = ["-w", "-fvisibility=hidden", "-fno-semantic-interposition"]
MODE = os.environ.get("KDISSECT_COMPILE", "1")
PROFILE = os.environ.get("KDISSECT_PROFILE", "")
# In a library that is optimized by counts; benchmarks look for it.
PROFILED = "kdissect: optimized by a profile"
BUILDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}


class ParallelBuild(build_ext):
    """Builds extensions, and the sources of one, with as many compilers as there are processors."""

    def build_extensions(self) -> None:
        if is_counted(PROFILE):
            check_counts(self.build_temp, PROFILE)
        processors = _processor_count()
        self.parallel = self.parallel or processors
        compile_one = self.compiler.compile
        with ThreadPoolExecutor(processors) as pool:

            def compile_each(sources: Sequence[str], *args: Any, **options: Any) -> list[str]:
                done = pool.map(lambda source: compile_one([source], *args, **options), sources)
                return [each for objects in done for each in objects]

            self.compiler.compile = compile_each
            super().build_extensions()


def is_counted(directory: str) -> bool:
    """Return whether a directory has counts of GCC."""
    return bool(directory) and any(Path(directory).glob("*.gcda"))


def check_counts(build_temp: str, directory: str) -> None:
    """End the build if GCC would not find the counts of a unit: it goes on without them."""
    for name in (*UNITS, "straight", "runtime"):
        counted = Path(build_temp, "build", f"unit_{name}.gcda").resolve()
        if not Path(directory, str(counted).replace("/", "#")).exists():
            sys.exit(f"KDISSECT_PROFILE={directory}: {counted} was not counted there")


def profile_options(directory: str) -> tuple[list[str], list[str]]:
    """Options of GCC and of its linker for `KDISSECT_PROFILE`."""
    if not directory:
        return [], []
    if is_counted(directory):
        # What the counted runs did not reach is optimized as without counts, not for size.
        return [f"-fprofile-use={directory}", "-fprofile-partial-training"], []
    return [f"-fprofile-generate={directory}", "-fprofile-update=single"], ["-fprofile-generate"]


def _processor_count() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def missing_compiler() -> str:
    """Why C extensions cannot be built here; "" when they can."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text("#include <Python.h>\nPyObject *PyInit_probe(void) { return NULL; }\n")
        probe = Distribution({"ext_modules": [Extension("probe", [str(source)])]})
        build = probe.get_command_obj("build_ext")
        build.build_lib = build.build_temp = directory
        try:
            build.ensure_finalized()
            build.run()
        except Exception as error:  # a compiler fails in many ways; the reason is told
            return str(error) or type(error).__name__
    return ""


def joined(sources: Sequence[str]) -> list[str]:
    """The C files of `UNITS`, which include mypyc's sources: a file for each module."""
    units: dict[str, list[str]] = {}
    for source in sources:
        units.setdefault(_unit(source), []).append(source)
    header = _write_inlined(Path("build"))
    return [
        _write_unit(name, each if name == "runtime" else [header, *each])
        for name, each in sorted(units.items())
    ]


def _write_inlined(runtime: Path) -> str:
    """The path of a header with the `INLINED` functions, of mypyc's sources there.

    A compiler that does not inline a call of one calls the runtime's: `gnu_inline` never makes
    another. Without GCC's language, or with the lists of free threading, none is inlined.
    """
    parts = ["#include <Python.h>", '#include "CPy.h"']
    parts += ["#if defined(__GNUC__) && !defined(Py_GIL_DISABLED)"]
    for file, names in INLINED.items():
        source = Path(runtime, file).read_text()
        parts += [_inlined(source, name) for name in names]
    header = Path(runtime, "inlined_runtime.h")
    header.write_text("\n".join([*parts, "#endif", ""]))
    return str(header)


def _inlined(source: str, name: str) -> str:
    """The first definition of a function in C, as one that is only inlined."""
    found = re.search(rf"^[a-zA-Z][^(\n]*\b{name}\([^{{]*\{{\n.*?^\}}$", source, re.M | re.S)
    if found is None:
        sys.exit(f"mypyc's runtime has no {name} any more: see INLINED in setup.py")
    if found[0].startswith("static "):
        return found[0]
    return f"extern inline __attribute__((gnu_inline)) {found[0]}"


def _unit(source: str) -> str:
    """The unit of a C file of mypyc's, such as build/__native_kdissect___packets___ip.c."""
    package, _, module = Path(source).stem.partition("___")[2].partition("___")
    if module == "generated_readers":  # large, and called as a whole
        return "straight"
    return next((name for name, packages in UNITS.items() if package in packages), "runtime")


def _write_unit(name: str, sources: Sequence[str]) -> str:
    """The path of a C file that includes these."""
    path = Path("build", f"unit_{name}.c")
    lines = [f'#include "{Path(each).resolve()}"' for each in sources]
    if name == "runtime" and is_counted(PROFILE):
        lines.append(f'const char kdissect_profile[] __attribute__((used)) = "{PROFILED}";')
    path.write_text("\n".join([*lines, ""]))
    return str(path)


def write_generated() -> list[str]:
    """Write the generated modules below build/, and nothing anywhere else; their paths."""
    sys.path.insert(0, str(Path(__file__).parent))
    sys.dont_write_bytecode = True
    paths = []
    for name, writer in GENERATED.items():
        path = GENERATED_BASE / "kdissect" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(import_module(writer).module_source(), encoding="utf-8")
        paths.append(str(path))
    return paths


def compiled_modules() -> list[Extension]:
    if MODE not in ("0", "1", "require"):
        sys.exit(f"KDISSECT_COMPILE={MODE}: say 0, 1 or require")
    if MODE == "0" or not BUILDS & set(sys.argv):
        return []
    if reason := missing_compiler():
        if MODE == "require":
            sys.exit(f"KDISSECT_COMPILE=require, but C extensions cannot be built: {reason}")
        print(f"kdissect: NOT compiled, so many times slower: {reason}", file=sys.stderr)
        return []
    from mypyc.build import mypycify

    paths = [f"kdissect/{name}.py" for name in COMPILED] + write_generated()
    print(f"kdissect: compiling {len(paths)} modules", file=sys.stderr)
    # The others are checked by `make check`, with their dependencies there.
    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    # A generated module has the name that its path below its base says.
    options += ["--explicit-package-bases"]
    os.environ["MYPYPATH"] = str(GENERATED_BASE)
    modules = mypycify(
        options + paths, opt_level="3", debug_level="0", multi_file=True, group_name="kdissect"
    )
    gc.freeze()  # mypy's trees: their collection would take as long as their making
    library = modules[0]
    library.sources = joined(library.sources)
    if os.name == "posix":
        compiling, linking = profile_options(PROFILE)
        for module in modules:
            module.extra_compile_args = module.extra_compile_args + GCC_OPTIONS + compiling
            module.extra_link_args = module.extra_link_args + linking
    return modules


setup(ext_modules=compiled_modules(), cmdclass={"build_ext": ParallelBuild})
