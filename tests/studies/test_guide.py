"""What the README and docs/studies.md say about studies is true of this version."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dechbo.cli import app
from dechbo.studies.studyfile import StudyFile

ROOT = Path(__file__).parents[2]
GROUP: Any = get_command(app)
COMMANDS = GROUP.commands
PAGES = ["README.md", "docs/studies.md", "docs/coming-from.md"]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_study_files_are_study_files(page: str, tmp_path: Path) -> None:
    found = blocks(page, "yaml")
    assert found
    for text in found:
        (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
        assert StudyFile.read(tmp_path / "study.yaml").objective is not None


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_are_commands_with_their_options(page: str) -> None:
    lines = [line for block in blocks(page, "bash") for line in re.split(r"\n|&&", block) if "dechbo " in line]
    commands = COMMANDS
    assert lines
    for line in lines:
        name, *arguments = shlex.split(line, comments=True)[1:]
        if name == "bench":
            continue
        command = commands[name]
        context = command.context_class(command, info_name=name)
        left = command.make_parser(context).parse_args(list(arguments))[1]
        assert left == [], line  # nothing that the command does not know


def test_every_option_and_field_is_named_in_the_reference() -> None:
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    for name in ("optimize", "best", "trials", "interactions", "export", "import", "ask", "tell", "init"):
        for option in COMMANDS[name].params:
            for flag in option.opts:
                assert not flag.startswith("--") or flag in text, (name, flag)


def test_the_example_of_the_readme_is_a_dozen_mixed_parameters() -> None:
    file = StudyFile.read(ROOT / "examples" / "wine.yaml")
    assert file.space.dim == 12
    kinds = {type(parameter).__name__ for parameter in file.space.parameters}
    assert kinds == {"Float", "Int", "Categorical"}
    assert any(getattr(parameter, "log", False) for parameter in file.space.parameters)
