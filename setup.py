"""Which modules are compiled, and when: KDISSECT_COMPILE is 1 (default), 0 or require.

1 compiles when a C compiler works and says so when not; require fails without one. The modules are
ordinary Python; mypyc makes one C library of them all, so that calls between them are direct.
All are compiled or none: there is no half-built state.
"""

import os
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, Extension, setup

# Every module that says i64 or mypyc_attr; a test holds them together.
COMPILED = """
    capture/interfaces capture/merge capture/packet capture/pcap capture/pcapng capture/scanner
    packets/decoder packets/fragments packets/ip packets/link packets/segment packets/tcp
    packets/tunnels packets/wireless wire/ring_blocks
    streams/acknowledged streams/clock streams/connections streams/copies streams/events
    streams/handshake
    streams/held streams/receiver streams/recent streams/sequence streams/symptoms
    frames kept_segments searching
    protocol/apis protocol/plans protocol/primitives protocol/projections protocol/readers
    protocol/structures
    messages/aborted messages/batch_counts messages/batches messages/compressed_frames
    messages/compression messages/facts messages/headers messages/interner
    messages/legacy_records messages/message_sets messages/old_recognition messages/partitions
    messages/record_columns messages/record_headers messages/record_slices messages/records
    messages/straight_metadata_groups messages/straight_produce_fetch messages/unpacking
    messages/varints
    exchanges/body_reader exchanges/exchange exchanges/fetches exchanges/fitting
    exchanges/holding exchanges/long_polls exchanges/memory exchanges/merging exchanges/naming
    exchanges/pairing
    exchanges/request_search exchanges/response_judge exchanges/response_search exchanges/sasl
    exchanges/shared_ids exchanges/sides
    exchanges/sniffing exchanges/timing exchanges/weighing
    tables/rows tables/body_rows tables/unmade edges dissector
""".split()  # noqa: SIM905  # a line a package
# Nobody overrides a function of the library from outside, so calls inside it can be inlined.
DIRECT_CALLS = ["-fvisibility=hidden", "-fno-semantic-interposition"] if os.name == "posix" else []
MODE = os.environ.get("KDISSECT_COMPILE", "1")
BUILDS = {"bdist_wheel", "build", "build_ext", "develop", "editable_wheel", "install"}


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

    paths = [f"kdissect/{name}.py" for name in COMPILED]
    print(f"kdissect: compiling {len(paths)} modules", file=sys.stderr)
    # The others are checked by `make check`, with their dependencies there.
    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    modules = mypycify(options + paths, opt_level="3", group_name="kdissect")
    for module in modules:
        module.extra_compile_args += DIRECT_CALLS
    return modules


setup(ext_modules=compiled_modules())
