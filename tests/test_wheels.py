"""The wheel that `make` takes from dist/, and the units that setup.py compiles."""

import ast
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

pytest.importorskip("pip", reason="tools.matching_wheel uses the packaging that pip brings")

from pip._vendor.packaging.tags import sys_tags

from tools import manifests
from tools.matching_wheel import differences, matching_wheel
from tools.pythons import SUPPORTED
from tools.wheels import DATA, contradictions

ROOT = Path(__file__).parent.parent
MODULE = "packets/ip"
MADE = "packets/generated"  # compiled, and not in the tree
PYPROJECT = """
[project]
name = "kdissect"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["click>=8.1", "pyarrow >= 17"]
[project.optional-dependencies]
spark = ["pyspark[connect]>=4.3", "pandas<3,>=2.2"]
"""
METADATA = """Metadata-Version: 2.4
Name: kdissect
Version: 0.1.0
Requires-Python: >=3.11
Requires-Dist: click>=8.1
Requires-Dist: pyarrow>=17
Provides-Extra: spark
Requires-Dist: pyspark[connect]>=4.3; extra == "spark"
Requires-Dist: pandas<3,>=2.2; extra == "spark"

"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "kdissect" / "packets"
    package.mkdir(parents=True)
    (tmp_path / "kdissect" / "__init__.py").write_text("")
    (package / "ip.py").write_text("X = 1\n")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "setup.py").write_text(
        f'COMPILED = """\n    {MODULE}\n""".split()\nGENERATED = {{"{MADE}": "writer"}}\n'
    )
    (tmp_path / "dist").mkdir()
    return tmp_path


def make_wheel(
    tree: Path,
    *,
    tag: str = "",
    metadata: str = METADATA,
    libraries: tuple[str, ...] = (MODULE, MADE),
) -> Path:
    """A wheel of the tree as it is now; the compiled one for this Python by default."""
    path = tree / "dist" / f"kdissect-0.1.0-{tag or next(sys_tags())}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for source in (tree / "kdissect").rglob("*.py"):
            archive.write(source, source.relative_to(tree).as_posix())
        for each in libraries:
            archive.writestr(f"kdissect/{each}.cpython-311-x86_64-linux-gnu.so", b"")
        archive.writestr("kdissect-0.1.0.dist-info/METADATA", metadata)
    return path


def test_a_wheel_of_these_sources_for_this_python_is_taken(tree: Path) -> None:
    wheel = make_wheel(tree)
    assert matching_wheel(tree, tree / "dist", compiled=True) == wheel
    assert matching_wheel(tree, tree / "dist", compiled=False) is None


def test_a_wheel_that_auditwheel_repaired_is_taken(tree: Path) -> None:
    """auditwheel repacks its output, with entries for directories."""
    wheel = make_wheel(tree)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.mkdir("kdissect/packets")
    assert matching_wheel(tree, tree / "dist", compiled=True) == wheel


def test_the_plain_wheel_is_taken_only_when_it_is_asked_for(tree: Path) -> None:
    wheel = make_wheel(tree, tag="py3-none-any", libraries=())
    assert matching_wheel(tree, tree / "dist", compiled=True) is None
    assert matching_wheel(tree, tree / "dist", compiled=False) == wheel


def test_a_wheel_for_another_python_is_not_taken(tree: Path) -> None:
    make_wheel(tree, tag="cp39-cp39-manylinux_2_17_x86_64")
    assert matching_wheel(tree, tree / "dist", compiled=True) is None


def changes(tree: Path) -> Iterator[str]:
    """Changes to the sources, one after the other; each is undone."""
    before = {path: path.read_text() for path in tree.rglob("*") if path.suffix in (".py", ".toml")}
    edits = (
        ("a module changed", "kdissect/packets/ip.py", "X = 1", "X = 2"),
        ("the version changed", "pyproject.toml", '"0.1.0"', '"0.1.1"'),
        ("a bound changed", "pyproject.toml", "click>=8.1", "click>=8.2"),
        ("a dependency of an extra went", "pyproject.toml", ', "pandas<3,>=2.2"', ""),
        ("the oldest Python changed", "pyproject.toml", ">=3.11", ">=3.12"),
        ("one more is compiled", "setup.py", MODULE, f"{MODULE} packets/tcp"),
        ("another is generated", "setup.py", MADE, f"{MADE}_more"),
    )
    for change, name, old, new in edits:
        path = tree / name
        assert old in before[path]
        path.write_text(before[path].replace(old, new))
        yield change
        path.write_text(before[path])
    added = tree / "kdissect" / "added.py"
    added.write_text("")
    yield "a module came"
    added.unlink()
    gone = tree / "kdissect" / "packets" / "ip.py"
    gone.unlink()
    yield "a module went"
    gone.write_text(before[gone])


def test_a_wheel_of_other_sources_is_not_taken(tree: Path) -> None:
    wheel = make_wheel(tree)
    missed = [each for each in changes(tree) if not differences(tree, wheel, compiled=True)]
    assert missed == []
    assert differences(tree, wheel, compiled=True) == []


def assigned(name: str) -> ast.expr:
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.value
    raise AssertionError(f"setup.py has no {name}")


def test_wheels_are_compared_by_their_files(tmp_path: Path) -> None:
    """auditwheel repacks its output, with entries for directories."""
    plain, repaired = tmp_path / "a-py3-none-any.whl", tmp_path / "a-cp313-cp313-linux.whl"
    for path, content in ((plain, "x"), (repaired, "x")):
        with zipfile.ZipFile(path, "w") as archive:
            for part in DATA:
                archive.writestr(f"{part}file", content)
    with zipfile.ZipFile(repaired, "a") as archive:
        archive.mkdir("kdissect/packets")
        archive.writestr("kdissect/packets/ip.cpython-313-x86_64-linux-gnu.so", b"\x7fELF")
    assert contradictions([plain, repaired]) == []
    with zipfile.ZipFile(repaired, "a") as archive:
        archive.writestr("kdissect/more.py", "")
    assert contradictions([plain, repaired]) == [f"{repaired.name} differs from the plain wheel"]


def test_each_compiled_package_is_in_one_unit() -> None:
    compiled = ast.literal_eval(assigned("COMPILED").func.value).split()  # type: ignore[attr-defined]
    units = ast.literal_eval(assigned("UNITS"))
    grouped = [package for packages in units.values() for package in packages]
    assert sorted(grouped) == sorted({name.split("/")[0] for name in compiled})


def test_the_same_pythons_are_declared_built_and_tested() -> None:
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    prefix = "Programming Language :: Python :: "
    named = [c.removeprefix(prefix) for c in project["project"]["classifiers"] if prefix in c]
    built = project["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{version.replace('.', '')}-*" for version in named]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert list(SUPPORTED) == named


def documents(name: str) -> list[dict[str, object]]:
    return list(yaml.safe_load_all(manifests.text_of(name)))


def started(name: str) -> list[dict[str, object]]:
    """Of a manifest what it runs; an ephemeral container's command is on kubectl's line."""
    if name == "debug.yaml":
        _, _, words = " ".join(manifests.debug_command()).partition(" -- ")
        program, *arguments = words.split()
        (part,) = documents(name)
        return [part | {"command": [program], "args": arguments}]
    return [each for document in documents(name) for each in containers(document)]


def test_a_profile_of_kubectl_debug_has_only_fields_that_it_takes() -> None:
    """kubectl refuses these; tools/kubernetes runs it."""
    (part,) = documents("debug.yaml")
    refused = {"name", "command", "args", "image", "lifecycle", "volumeDevices"}
    assert not refused & part.keys()
    assert "--custom=deploy/kubernetes/debug.yaml" in manifests.debug_command()


@pytest.mark.parametrize(
    "name", ["sidecar.yaml", "daemonset.yaml", "debug.yaml", "broker-of-node.yaml"]
)
def test_kubernetes_accepts_the_deployed_manifests(name: str) -> None:
    validator = pytest.importorskip(
        "kubernetes_validate", reason="pip install kubernetes-validate: Kubernetes' schemas"
    )
    for document in documents(name):
        if name == "debug.yaml":  # a part of a container: kubectl debug adds the rest
            container = {"name": "debug", "image": "kdissect"} | document
            document = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "debug"},
                "spec": {"containers": [container]},
            }
        validator.validate(document, "1.32", strict=True)


def containers(value: object) -> Iterator[dict[str, object]]:
    """Commands in a document that run kdissect-live."""
    if isinstance(value, dict):
        if value.get("command") == ["kdissect-live"]:
            yield value
        for each in value.values():
            yield from containers(each)
    elif isinstance(value, list):
        for each in value:
            yield from containers(each)


@pytest.mark.parametrize("name", ["sidecar.yaml", "daemonset.yaml", "debug.yaml"])
def test_a_container_captures_with_net_raw_only_and_not_as_root(name: str) -> None:
    (found,) = started(name)
    context = found["securityContext"]
    assert isinstance(context, dict)
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["NET_RAW"]}
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 65532)
    # The capability comes from a file, which no_new_privs would ignore.
    assert context["allowPrivilegeEscalation"] is True


@pytest.mark.parametrize("name", ["sidecar.yaml", "daemonset.yaml", "debug.yaml"])
def test_a_container_is_started_with_options_that_there_are(name: str) -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "kdissect", "live", "--help"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (container,) = started(name)
    arguments = container["args"]
    assert isinstance(arguments, list)
    options = [each.partition("=")[0] for each in arguments if each.startswith("-")]
    assert [option for option in options if f"{option} " not in help_text.replace(",", " ")] == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="the steps are shell scripts")
def test_the_steps_of_the_container_are_scripts_that_a_shell_reads() -> None:
    for name, shell in (
        ("build", "sh"),
        ("final", "sh"),
        ("net-raw", "sh"),
        ("size", "sh"),
        ("chroot", "bash"),
    ):
        script = ROOT / "deploy" / "container" / name
        assert script.stat().st_mode & 0o111, f"{name} is not executable"
        subprocess.run([shell, "-n", script], check=True)


def test_what_the_containerfile_copies_is_in_the_context_of_the_build() -> None:
    """Of the context an engine leaves out what .dockerignore names: here all, with exceptions."""
    first, *others = (ROOT / ".dockerignore").read_text().split()
    assert first == "*"
    kept = {Path(line[1:]) for line in others if line.startswith("!")}
    steps = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Containerfile").read_text(), re.M)
    copied = {Path(name) for step in steps for name in step.split()}
    assert len(copied) >= 10
    assert {one for one in copied if not kept & {one, *one.parents}} == set()


def test_an_image_that_is_larger_than_the_limit_is_not_built(tmp_path: Path) -> None:
    """The last step measures all files; a du that is found first simulates a large image."""
    steps = (ROOT / "Containerfile").read_text()
    assert re.findall(r"^RUN .*/container/size (\d+) ", steps, re.M) == ["400"]
    program = tmp_path / "du"
    for megabytes, code in ((400, 0), (401, 1)):
        program.write_text(f"#!/bin/sh\nprintf '{megabytes}\\t/\\n'\n")
        program.chmod(0o755)
        done = subprocess.run(
            [ROOT / "deploy" / "container" / "size", "400"],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (code, f"{megabytes} MB of files, at most 400\n")
