"""Imports go one way: a room of src/dechbo imports only rooms that stand earlier in ORDER."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "dechbo"
ORDER = [
    "errors",
    "compiled",
    "threads",
    "checks",
    "space",
    "graph",
    "data",
    "tables",
    "gp",
    "structure",
    "models",
    "maxsum",
    "acquisition",
    "search",
    "interactions",
    "theory",
    "optimizer",
    "execution",
    "distributed",
    "_minimize",
    "integrations",
    "plot",
    "studies",
    "baselines",
    "bench",
    "report",
    "cli",
]
ONLY = {"graph": {"errors"}}  # stricter than the order
OPTIONAL = ["ray", "torch", "optuna", "sklearn"]
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_modules(source: str, package: tuple[str, ...]) -> Iterator[str]:
    """Every dotted name of ours that ``source`` imports, also inside functions; ``package`` holds the file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join((*base, *([node.module] if node.module else [])))
            names = [f"{stem}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "dechbo")


def wrong_imports(room: str, source: str, package: tuple[str, ...]) -> list[str]:
    allowed = ONLY.get(room, set(ORDER[: ORDER.index(room)])) | {room, "__version__"}
    return [name for name in imported_modules(source, package) if [*name.split("."), ""][1] not in allowed]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_import_only_earlier_rooms(path: Path) -> None:
    room = room_of(path)
    assert room in ORDER, f"room {room!r} has no place in ORDER: give it one"
    package = ("dechbo", *path.relative_to(PACKAGE).parts[:-1])
    assert wrong_imports(room, path.read_text(encoding="utf-8"), package) == []


@pytest.mark.parametrize(
    ("room", "source", "wrong"),
    [
        ("gp", "from dechbo.tables import FactorTables\nimport numpy, dechbo.errors", []),
        ("gp", "from .kernels import matern\nfrom dechbo import graph", []),
        ("gp", "from ..tables import FactorTables", []),
        ("gp", "from ..search import Engine", ["dechbo.search.Engine"]),
        ("gp", "def late():\n    from dechbo.optimizer import Optimizer", ["dechbo.optimizer.Optimizer"]),
        ("gp", "import dechbo.maxsum.exact", ["dechbo.maxsum.exact"]),
        ("gp", "import dechbo", ["dechbo"]),
        ("gp", "from dechbo import Optimizer", ["dechbo.Optimizer"]),
        ("graph", "from dechbo.compiled import compiled", ["dechbo.compiled.compiled"]),
        ("search", "from dechbo.maxsum import MaxSum", []),
        ("optimizer", "from dechbo.theory import beta", []),
        ("cli", "from dechbo import __version__", []),
    ],
)
def test_the_check_itself(room: str, source: str, wrong: list[str]) -> None:
    assert list(wrong_imports(room, source, ("dechbo", room))) == wrong


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.name != "__init__.py"], ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_every_module_has_a_test(path: Path) -> None:
    """A test file of the same name in the mirrored folder, or one that the module's docstring names."""
    tests = Path(__file__).parent
    mirrored = tests / path.relative_to(PACKAGE).parent / f"test_{path.stem.lstrip('_')}.py"
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    named = re.findall(r"test_\w+\.py", docstring)
    assert mirrored.exists() or named, f"write {mirrored.relative_to(tests)}, or name the test in the docstring"
    assert all(any(tests.rglob(name)) for name in named), f"{named}: no such test"


def definitions(kind: type[ast.AST] | tuple[type[ast.AST], ...]) -> Iterator[tuple[str, Path]]:
    """The names of all classes or functions of the package, and their files."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kind):
                yield node.name, path  # type: ignore[attr-defined]


def test_a_class_name_means_one_class() -> None:
    seen: dict[str, Path] = {}
    for name, path in definitions(ast.ClassDef):
        assert name not in seen, f"{name} is a class of {seen[name]} and of {path}"
        seen[name] = path


def test_names_are_words_that_a_reader_looks_for() -> None:
    """Words that earlier code used for the incumbent, members, restarts, executors and views; see docs/glossary.md."""
    private = {"scout", "freshlook", "recipe", "crew", "fleet", "champion", "champions", "promise", "narrowing", "wish"}
    private |= {"board", "standing", "laboratory", "patiently"}
    names = [name for name, _ in definitions((ast.ClassDef, ast.FunctionDef))] + [path.stem for path in FILES]
    parts = {name: set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")) for name in names}
    assert [name for name, words in parts.items() if words & private] == []
    assert not {"in_vain", "look_elsewhere"} & set(names)


def test_there_is_no_utils() -> None:
    assert [path for path in PACKAGE.rglob("*") if path.stem in ("utils", "util")] == []


def test_import_dechbo_imports_no_optional_package() -> None:
    code = f"import sys, dechbo; print([name for name in {OPTIONAL} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
