"""Directories and files of any name: each answer equals that of a plainly named copy.

Next to each is a file that its name would match as a pattern, with other content.
"""

import json
import random
import re
import shlex
import shutil
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import parquet

import kdissect
from kdissect.analysis.catalogue import QUESTIONS
from kdissect.cli.program import run
from kdissect.spark.pipeline import dissect
from kdissect.text.escape import escaped
from tests.seeds import SEED

CAPTURE = Path("captures/retries-4.3.1.pcapng").absolute()
OTHER = Path("captures/tokens-4.3.1.pcapng").absolute()
NAMES = (
    "a[1]", "b*", "c?", "{d,e}", "it's", 'a "b"', "sp ace", " ", "new\nline", "-dash", "größe 日本",
    "100%25", "100%", "api=Fetch", "tap=zzz", "date=1999-01-01", "a:b", "http:", "~", "~root",
    "back\\slash", "[!x]", "[^x]", "a[\\]", "[", "]", "[[]", "$HOME", "**", "{1..3}", "a,b", ";",
    "--", "a#b", "&", "\x01\x7f", "a'; DROP VIEW exchanges; --", "*/*", "x.parquet", "x.pcapng",
)  # fmt: skip
ALPHABET = ("[", "]", "*", "?", "{", "}", ",", "'", '"', " ", "\n", "-", "é", "%", "=", "\\", ":",
            "a", "1", "!", "^", "~", "$", "(", ";", "#", "..", "tap=", "20")  # fmt: skip
DRAWN = 12
UNFIT_MESSAGE = re.compile(r"(?s)kdissect: .*: Delta tables cannot be in .*: rename it\n")


def drawn_names() -> list[str]:
    chance = random.Random(SEED)
    names = ["".join(chance.choices(ALPHABET, k=chance.randrange(2, 8))) for _ in range(DRAWN)]
    return [name for name in names if name not in ("..", ".")]


def names() -> list[str]:
    """Difficult names, and drawn ones; none has a slash."""
    return [name.replace("/", "") for name in (*NAMES, *drawn_names())]


def decoys(name: str) -> set[str]:
    """Names that the name would match as a pattern."""
    plain = re.sub(r"\[[!^]?(.)[^]]*\]", r"\1", name)
    first = re.sub(r"\{([^,}]*),[^}]*\}", r"\1", plain)
    matched = {text.replace("*", "zz").replace("?", "z") for text in (plain, first)}
    matched |= {name.replace("\\", ""), name.replace("%25", "%"), name.strip()}
    return {one for one in matched if one not in ("", ".", "..") and len(one) < 200} - {name}


TABLE = {"table": ["exchanges"]}


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The capture and another one: as a file, as tables, and as a dataset."""
    place = tmp_path_factory.mktemp("forms")
    made = {}
    for word, capture in (("own", CAPTURE), ("other", OTHER)):
        directory = made[word] = place / word
        directory.mkdir()
        shutil.copy(capture, directory / "ring.pcapng")
        kdissect.write(capture, directory / "tables")
        dissect(None, [directory / "ring.pcapng"], directory / "dataset")
    return made


def is_read_by_delta(dataset: Path) -> bool:
    """Return whether Delta itself finds the files of a table below this path."""
    try:
        return (
            DeltaTable(dataset / "exchanges").to_pyarrow_table(columns=["exchange_id"]).num_rows > 0
        )
    except (DeltaError, OSError, ValueError):
        return False


def placed(forms: dict[str, Path], root: Path, name: str) -> Path:
    """A copy of all forms in a directory of that name, beside its decoys."""
    for decoy in decoys(name):
        if not (root / decoy).exists():
            shutil.copytree(forms["other"], root / decoy)
    if (root / name).exists():
        shutil.rmtree(root / name)
    shutil.copytree(forms["own"], root / name)
    return root / name


LINES = (
    ("ring.pcapng", ["table", "--format", "json", "--", "exchanges"]),
    ("ring.pcapng", ["latency", "--format", "json", "--"]),
    ("tables", ["latency", "--where", "latency_ns > 0", "--format", "json", "--"]),
    ("dataset", ["table", "--format", "json", "--", "exchanges"]),
    ("dataset", ["errors", "--by", "tap,date,error", "--format", "json", "--"]),
)


@pytest.fixture(scope="module")
def plain_answers(forms: dict[str, Path]) -> list[Any]:
    return [answer([*words, str(forms["own"] / form)]) for form, words in LINES]


def answer(words: list[str]) -> Any:
    """The rows that a command prints, without the names of their files."""
    with redirect_stdout(TextIOWrapper(BytesIO())) as out:
        assert run(words) == 0
        out.seek(0)
        found = json.loads(out.read())
    for row in found:
        row.pop("capture", None)
    return found


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("name", names(), ids=repr)
def test_answers_are_those_of_plain_names(
    name: str,
    forms: dict[str, Path],
    plain_answers: list[Any],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = placed(forms, tmp_path, name)
    monkeypatch.chdir(tmp_path)
    for (form, words), plain in zip(LINES, plain_answers, strict=True):
        if form == "dataset" and not is_read_by_delta(place / form):
            assert run([*words, str(place / form)]) == 1
            assert UNFIT_MESSAGE.fullmatch(capfd.readouterr().err)
        else:
            assert answer([*words, str(place / form)]) == plain, form
    form, words = LINES[2]
    assert answer([*words, str(Path(name, form))]) == plain_answers[2]


def commands() -> list[list[str]]:
    """Every command that reads captures or tables and returns immediately."""
    return [
        ["summary", "--json"], ["show", "--limit", "3"], ["table", "--limit", "9"],
        ["slice"], ["spans"], ["compare", "--before", "api = 'Produce'", "--of", "latency"],
        ["dissect"], *[[name] for name in QUESTIONS],
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_takes_files_of_any_name(
    words: list[str],
    forms: dict[str, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = " ".join(words)
    chance = random.Random(seed)
    (tmp_path / "made").mkdir()
    monkeypatch.chdir(tmp_path / "made")
    for name in chance.sample(names(), 3):
        place = placed(forms, tmp_path, name)
        shutil.copy(CAPTURE, place / name)  # a file of the name, in a directory of the name
        told = []
        for source in (forms["own"] / "ring.pcapng", place / name):
            made = Path(name)
            output = ["-o", name] if words[0] in ("slice", "spans", "dissect") else []
            code = run([*words, *output, "--", *TABLE.get(words[0], ()), str(source)])
            out, err = capfd.readouterr()
            assert code in (0, 1), (seed, name, err)
            told.append((code, spaced(out), written(made)))
        (code, out, made), (code_of_name, out_of_name, made_of_name) = told
        assert (code, made) == (code_of_name, made_of_name), (seed, name)
        expected = with_other_names(out, forms["own"] / "ring.pcapng", place / name)
        assert re.fullmatch(expected, out_of_name), (seed, name, out, out_of_name)


def with_other_names(text: str, source: Path, other: Path) -> str:
    """A pattern: the output where each spelling of a source is one of the other."""
    known = "|".join(map(re.escape, spellings(source)))
    named = "|".join(map(re.escape, spellings(other)))
    return f"(?:{named})".join(map(re.escape, re.split(known, text)))


def spellings(source: Path) -> list[str]:
    """A source in commands that can be pasted, and elsewhere; its path before its name."""
    quoted = [words for one in (str(source), source.name) for words in (shlex.quote(one), one)]
    forms = [(escaped(words), json.dumps(words, ensure_ascii=False)[1:-1]) for words in quoted]
    return [spaced(words) for pair in forms for words in pair]


def spaced(text: str) -> str:
    """Text whose rules and white space are single spaces: names have widths of their own."""
    return re.sub(r"[─\s]+", " ", text)


@pytest.mark.parametrize("name", ["a:b", "file:", "c[1]*=d", "-o", "~"])
def test_tables_and_live_captures_are_written_to_the_given_path(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["dissect", str(CAPTURE), "-o", name]) == 0
    assert (tmp_path / name / "exchanges.parquet").is_file()
    assert run(["table", "exchanges", str(CAPTURE), "-o", f"{name}.parquet"]) == 0
    assert parquet.read_metadata(tmp_path / f"{name}.parquet").num_rows == 41
    assert run(["live", str(CAPTURE), "-o", f"live {name}"]) == 0
    plain = answer(["latency", "--format", "json", str(CAPTURE)])
    for source in (name, f"live {name}"):
        assert answer(["latency", "--format", "json", "--", source]) == plain


def written(made: Path) -> Any:
    """Remove and return the output: rows of tables, existence of files."""
    if made.is_dir():
        counts = {path.name: parquet.read_metadata(path).num_rows for path in made.iterdir()}
        shutil.rmtree(made)
        return counts
    is_there = made.exists()
    made.unlink(missing_ok=True)
    return is_there


def test_existing_file_names_are_not_globs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(CAPTURE, tmp_path / "a[1].pcapng")
    shutil.copy(OTHER, tmp_path / "a1.pcapng")
    counts = []
    for path in (CAPTURE, tmp_path / "a[1].pcapng", tmp_path / "a[12].pcapng", OTHER):
        assert run(["table", "exchanges", str(path), "--format", "json"]) == 0
        counts.append(len(json.loads(capsys.readouterr().out)))
    assert counts[0] == counts[1] != counts[2] == counts[3]
