"""StudyFile: what a YAML file may say, and errors that name the line and the field."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from dechbo.errors import StudyFileError
from dechbo.space import Categorical, Float, Int
from dechbo.studies import CommandObjective, PythonObjective, StudyFile
from dechbo.studies.storage import checked_url
from study_cases import write_study

ISSUE = """\
name: my-study
direction: minimize
parameters:
  lr:      {type: float, low: 1.0e-5, high: 1, log: true}
  layers:  {type: int, low: 1, high: 8}
  act:     {type: categorical, choices: [relu, tanh]}
objective: {python: "train:run"}        # called as run(lr=…, layers=…, act=…)
factors: [[lr, layers]]                 # optional: known interactions; learned when absent
trials: 100
seed: 0
storage: sqlite:///my-study.db          # optional; this is the default
"""

SMALL = """\
name: s
parameters:
  x: {type: float, low: 0, high: 1}
"""


def read(folder: Path, text: str) -> StudyFile:
    (folder / "study.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
    return StudyFile.read(folder / "study.yaml")


def test_the_file_of_the_documentation(tmp_path: Path) -> None:
    file = read(tmp_path, ISSUE)
    assert (file.name, file.direction, file.trials, file.seed) == ("my-study", "minimize", 100, 0)
    assert file.space.names == ("lr", "layers", "act")
    assert file.space.parameters == (Float(1e-5, 1, log=True), Int(1, 8), Categorical(["relu", "tanh"]))
    assert file.factors == (("lr", "layers"),)
    assert isinstance(file.objective, PythonObjective)
    assert (file.objective.target, file.objective.folder) == ("train:run", tmp_path)
    assert file.storage == f"sqlite:///{tmp_path}/my-study.db"
    assert file.path == tmp_path / "study.yaml"


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    file = read(tmp_path, SMALL)
    assert (file.direction, file.trials, file.seed, file.factors, file.objective) == ("minimize", 100, 0, None, None)
    assert file.storage == f"sqlite:///{tmp_path}/s.db"
    assert dict(file.options) == {}


def test_a_name_with_special_characters(tmp_path: Path) -> None:
    file = read(tmp_path, SMALL.replace("name: s", "name: 100% {mine}? é"))
    assert checked_url(file.storage).database == f"{tmp_path}/100% {{mine}}? é.db"


def test_a_command_with_limits_and_options(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        SMALL
        + """\
objective: {command: "python 'my train.py' --x={x} --json {{}}", timeout: 1.5, retries: 2}
options: {max_factor_size: 2, graph: random, beta: 1.5, noise: 1e-3, n_initial: 4}
""",
    )
    assert isinstance(file.objective, CommandObjective)
    assert file.objective.arguments == ("python", "my train.py", "--x={x}", "--json", "{{}}")
    assert (file.objective.timeout, file.objective.retries) == (1.5, 2)
    assert dict(file.options) == {"max_factor_size": 2, "graph": "random", "beta": 1.5, "noise": 1e-3, "n_initial": 4}


def test_a_command_as_a_list(tmp_path: Path) -> None:
    file = read(tmp_path, SMALL + 'objective: {command: [python, "a b.py", "{params}"]}\n')
    assert isinstance(file.objective, CommandObjective)
    assert file.objective.arguments == ("python", "a b.py", "{params}")


def test_numbers_and_words_are_read_as_yaml_1_2_has_them(tmp_path: Path) -> None:
    """1e-5 is a text to YAML 1.1, yes a bool, 010 an octal and 12:30 a number of seconds."""
    file = read(
        tmp_path,
        """\
        name: 2024-01-01
        parameters:
          on: {type: float, low: 1e-5, high: 1E+2, log: True}
          n: {type: int, low: 010, high: 1e3}
          c: {type: categorical, choices: [yes, off, true, ~, 12:30, 1e-3, 5, "5", '']}
        """,
    )
    assert file.name == "2024-01-01"
    assert file.space["on"] == Float(1e-5, 100.0, log=True)
    assert file.space["n"] == Int(10, 1000)
    assert file.space["c"] == Categorical(["yes", "off", True, None, "12:30", 1e-3, 5, "5", ""])


def test_known_linear_constraints_belong_to_the_space(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        """\
        name: s
        parameters:
          a: {type: float, low: 0, high: 1}
          b: {type: float, low: 0, high: 1}
        constraints: ["a + b <= 1"]
        """,
    )
    assert file.constraints == ("a + b <= 1",)
    assert len(file.space.constraints) == 1


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///runs/a.db", "sqlite:///{folder}/runs/a.db"),
        ("sqlite:////var/a.db", "sqlite:////var/a.db"),
        ("postgresql://me:secret@db.example/studies", "postgresql://me:secret@db.example/studies"),
    ],
)
def test_a_relative_sqlite_path_is_taken_from_the_folder_of_the_file(tmp_path: Path, url: str, expected: str) -> None:
    assert read(tmp_path, SMALL + f"storage: {url}\n").storage == expected.format(folder=tmp_path)


def test_a_range_ends_at_its_last_step(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        """\
        name: s
        parameters:
          n: {type: int, low: 1, high: 9, step: 4}
          f: {type: float, low: 0, high: 0.9, step: 0.3}
          m: {type: int, low: 0, high: 1e18}
        """,
    )
    assert file.space["n"] == Int(1, 9, step=4)
    assert file.space["f"] == Float(0, 0.9, step=0.3)
    assert file.space["m"] == Int(0, 10**18)


def test_a_range_that_its_steps_do_not_fill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError) as caught:
        read(
            tmp_path,
            """\
            name: s
            parameters:
              n: {type: int, low: 1, high: 10, step: 4}
              f: {type: float, low: 0, high: 1, step: 0.3}
            """,
        )
    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines() == [
        "study.yaml:3: parameters.n.high: steps of 4 from 1 end at 9, not at 10: write high: 9, or another step",
        "study.yaml:4: parameters.f.high: steps of 0.3 from 0 end at 0.9, not at 1: write high: 0.9, or another step",
    ]


BAD_FILES = [
    # top
    ("", r"study.yaml:1: the file is empty"),
    ("- a\n", r"study.yaml:1: expected a mapping \(name: value\), got a list"),
    ("just text\n", r"study.yaml:1: expected a mapping \(name: value\), got 'just text'"),
    (SMALL.replace("name: s\n", ""), r"study.yaml:1: 'name' is missing"),
    ("name: s\n", r"study.yaml:1: 'parameters' is missing"),
    (SMALL + "trails: 3\n", r"study.yaml:4: trails: unknown field; did you mean 'trials'\?"),
    (SMALL + "zzz: 3\n", r"study.yaml:4: zzz: unknown field; known are \['name', "),
    (SMALL + "name: again\n", r"study.yaml:4: name: given twice, first in line 1"),
    (SMALL + "<<: {trials: 3}\n", r"study.yaml:4: <<: unknown field"),
    (SMALL + "? [a]\n: 3\n", r"study.yaml:4: expected a name before the colon"),
    ("name: [a\n", r"study.yaml:2: not YAML: while parsing a flow sequence"),
    ("name: a\n\tb: c\n", r"study.yaml:2: not YAML: while scanning for the next token"),
    ("a: 1\n---\nb: 2\n", r"study.yaml:2: not YAML: expected a single document"),
    ("name: a\nb: \x07\n", r"study.yaml:2: not YAML: the character"),
    (SMALL.replace("name: s", "name: a/b"), r"study.yaml:1: name: expected at most 100 characters without slashes"),
    (SMALL.replace("name: s", "name:"), r"study.yaml:1: name: expected a value, got nothing"),
    (SMALL.replace("name: s", "name: .."), r"study.yaml:1: name: expected .* not beginning with a dot"),
    (SMALL + "direction: up\n", r"study.yaml:4: direction: expected one of 'minimize', 'maximize', got 'up'"),
    (SMALL + "direction: minimise\n", r"direction: .* got 'minimise'; did you mean 'minimize'\?"),
    (SMALL + "trials: 0\n", r"study.yaml:4: trials: expected a number at least 1, got '0'"),
    (SMALL + "trials: many\n", r"study.yaml:4: trials: expected a whole number, got 'many'"),
    (SMALL + "trials: true\n", r"study.yaml:4: trials: expected a whole number, got 'true'"),
    (SMALL + "seed: -1\n", r"study.yaml:4: seed: expected a number at least 0, got '-1'"),
    (SMALL + "seed: 1.5\n", r"study.yaml:4: seed: expected a whole number, got '1.5'"),
    (SMALL + "storage: nonsense\n", r"study.yaml:4: storage: a storage must be a URL such as sqlite:///study.db"),
    (SMALL + "storage: [a]\n", r"study.yaml:4: storage: expected a text, got a list"),
    # tags: nothing is ever constructed
    ("!!python/object/apply:os.system ['true']\n", r"study.yaml:1: expected a mapping .*python/object.*never read"),
    (SMALL.replace("name: s", "name: !!python/name:os.system"), r"study.yaml:1: name: .*tag 'python/name:os.system'"),
    (SMALL + "seed: !mine 3\n", r"study.yaml:4: seed: .*got the tag '!mine', which is never read"),
    (SMALL.replace("{type", "!!python/dict {type"), r"study.yaml:3: parameters.x: expected a mapping .*python/dict"),
    # parameters
    ("name: s\nparameters: {}\n", r"study.yaml:2: parameters: expected at least one entry, got nothing"),
    ("name: s\nparameters: 3\n", r"study.yaml:2: parameters: expected a mapping"),
    ("name: s\nparameters: {x: 3}\n", r"study.yaml:2: parameters.x: expected a mapping"),
    (SMALL.replace("low: 0", "low: x"), r"study.yaml:3: parameters.x.low: expected a number, got 'x'"),
    (SMALL.replace("low: 0", 'low: "0"'), r"parameters.x.low: expected a number, got the text '0'"),
    (SMALL.replace("low: 0", "low: .inf"), r"parameters.x.low: expected a finite number, got '.inf'"),
    (SMALL.replace("low: 0", "low: .nan"), r"parameters.x.low: expected a finite number, got '.nan'"),
    (SMALL.replace("low: 0", "low: 2"), r"parameters.x.low: expected low < high, got low 2.0 and high 1.0"),
    (SMALL.replace("low: 0", f"low: 1{'0' * 400}"), r"parameters.x.low: expected a number, got '100"),
    (SMALL.replace("float, low: 0", f"int, low: 1{'0' * 400}"), r"parameters.x.low: expected low < high, got low 100"),
    (SMALL.replace("low: 0, ", ""), r"study.yaml:3: parameters.x: 'low' is missing"),
    (SMALL.replace("type: float, ", ""), r"parameters.x: 'type' is missing: float, int or categorical"),
    (SMALL.replace("float", "flaot"), r"parameters.x.type: expected one of .*; did you mean 'float'\?"),
    (SMALL.replace("high: 1", "hgih: 1"), r"parameters.x.hgih: unknown field; did you mean 'high'\?"),
    (SMALL.replace("high: 1", "high: 1, log: true"), r"parameters.x.low: a log scale needs low > 0, got 0.0"),
    (SMALL.replace("high: 1", "high: 1, log: maybe"), r"parameters.x.log: expected true or false, got 'maybe'"),
    (SMALL.replace("high: 1", "high: 1, step: 0"), r"parameters.x.step: expected a step above 0"),
    (SMALL.replace("high: 1", "high: 1, step: 3"), r"parameters.x.step: expected a step above 0 and at most"),
    (SMALL.replace("low: 0", "low: 0.1, log: true, step: 0.1"), r"parameters.x.step: give log or a step, not both"),
    (SMALL.replace("float, low: 0", "int, low: 0.5"), r"parameters.x.low: expected a whole number, got '0.5'"),
    (SMALL.replace("float, low: 0, high: 1", "categorical, choices: []"), r"parameters.x.choices: expected at least"),
    (SMALL.replace("float, low: 0, high: 1", "categorical, choices: a"), r"parameters.x.choices: expected a list"),
    (SMALL.replace("float, low: 0, high: 1", "categorical, choices: [a, a]"), r"study.yaml:3: parameters.x: .*twice"),
    (
        SMALL.replace("float, low: 0, high: 1", "categorical, choices: [1, true, 2]"),
        r"study.yaml:3: parameters.x.choices\[1\]: 1 and true cannot be told apart in the storage; write one as a text",
    ),
    (
        SMALL.replace("float, low: 0, high: 1", "categorical, choices: [a, 0, -0.0]"),
        r"parameters.x.choices\[2\]: 0 and -0.0 cannot be told apart",
    ),
    (SMALL.replace("float, low: 0, high: 1", "categorical, choices: [a, [b]]"), r"choices\[1\]: expected a single"),
    (SMALL.replace("float, low: 0, high: 1", "categorical, choices: [.nan]"), r"choices\[0\]: expected a finite"),
    (SMALL.replace("float, low: 0, high: 1", "categorical"), r"study.yaml:3: parameters.x: 'choices' is missing"),
    (SMALL + "  x: {type: int, low: 1, high: 2}\n", r"study.yaml:4: parameters.x: given twice, first in line 3"),
    # factors, constraints, options
    (SMALL + "factors: [[y]]\n", r"study.yaml:4: factors\[0\]\[0\]: no parameter is called 'y'; known are \['x'\]"),
    (SMALL + "factors: [x]\n", r"study.yaml:4: factors\[0\]: expected a list, got 'x'"),
    (SMALL + "factors: []\n", r"study.yaml:4: factors: expected at least one factor"),
    (SMALL + "factors: [[]]\n", r"study.yaml:4: factors\[0\]: expected distinct parameters"),
    (SMALL + "factors: [[x, x]]\n", r"study.yaml:4: factors\[0\]: expected distinct parameters"),
    (SMALL + "factors: [[x]]\noptions: {graph: random}\n", r"study.yaml:4: factors: give factors or options.graph"),
    (SMALL + "constraints:\n- x <= 1\n- y <= 1\n", r"study.yaml:6: constraints\[1\]: .*'y'"),
    (SMALL + "constraints:\n- x is small\n", r"study.yaml:5: constraints\[0\]: "),
    (SMALL + "options: {betta: 3}\n", r"study.yaml:4: options.betta: unknown field; did you mean 'beta'\?"),
    (SMALL + "options: {beta: -1}\n", r"study.yaml:4: options.beta: expected a number at least 0"),
    (SMALL + "options: {beta: practicle}\n", r"options.beta: expected one of .* did you mean 'practical'\?"),
    (SMALL + "options: {noise: .inf}\n", r"study.yaml:4: options.noise: expected a finite number, got '.inf'"),
    (SMALL + "options: {graph: known}\n", r"study.yaml:4: options.graph: expected one of 'learned', 'random'"),
    (SMALL + "options: {n_initial: 0}\n", r"study.yaml:4: options.n_initial: expected a number at least 1"),
    # objective
    (SMALL + "objective: train:run\n", r"study.yaml:4: objective: expected a mapping .*, got 'train:run'"),
    (SMALL + "objective: {}\n", r"study.yaml:4: objective: expected python: .* or command: .*, one of the two"),
    (SMALL + "objective: {timeout: 3}\n", r"study.yaml:4: objective: expected python: .* or command"),
    (SMALL + 'objective: {python: "a:b", command: "c {x}"}\n', r"study.yaml:4: objective: expected .* one of the two"),
    (SMALL + 'objective: {pyhton: "a:b"}\n', r"study.yaml:4: objective.pyhton: unknown field; did you mean 'python'\?"),
    (SMALL + 'objective: {python: "a.b"}\n', r'objective.python: expected "module:function", got \'a.b\''),
    (SMALL + 'objective: {python: "a:b()"}\n', r'objective.python: expected "module:function"'),
    (SMALL + 'objective: {python: "a:b", timeout: 0}\n', r"objective.timeout: expected a number above 0, got '0'"),
    (SMALL + 'objective: {python: "a:b", retries: -1}\n', r"objective.retries: expected a number at least 0"),
    (SMALL + 'objective: {command: "a {x"}\n', r"objective.command: argument '\{x' has a single '\{'"),
    (SMALL + 'objective: {command: "a x}"}\n', r"objective.command: argument 'x\}' has a single '\}'"),
    (SMALL + 'objective: {command: "a \'b {x}"}\n', r"objective.command: cannot be split into arguments: No closing"),
    (SMALL + 'objective: {command: "a {xx}"}\n', r"objective.command: \{xx\} is no parameter; did you mean 'x'\?"),
    (SMALL + 'objective: {command: "a {x.real}"}\n', r"objective.command: \{x.real\} is no parameter"),
    (SMALL + 'objective: {command: "a {x:.3f}"}\n', r"objective.command: \{x:.3f\} is no parameter"),
    (SMALL + 'objective: {command: "a b"}\n', r"objective.command: the command never uses 'x': write \{x\} where"),
    (SMALL + 'objective: {command: ""}\n', r"study.yaml:4: objective.command: expected a program and its arguments"),
    (SMALL + 'objective: {command: " "}\n', r"objective.command: expected a program and its arguments, got nothing"),
    (SMALL + "objective: {command: []}\n", r"objective.command: expected a program and its arguments, got nothing"),
    (SMALL + 'objective: {command: [a, [b], "{x}"]}\n', r"objective.command\[1\]: expected a text, got a list"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FILES, ids=[message[:60] for _, message in BAD_FILES])
def test_an_error_names_file_line_and_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StudyFileError, match=message):
        read(tmp_path, text)


def test_all_errors_are_named_in_the_order_of_their_lines(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError) as caught:
        read(tmp_path, "name: a/b\nparameters:\n  x: {type: float, low: a, high: b}\ntrials: 0\nseed: -1\n")
    lines = [line.removeprefix(f"{tmp_path}/study.yaml:") for line in str(caught.value).splitlines()]
    assert [line.split(": ")[:2] for line in lines] == [
        ["1", "name"],
        ["3", "parameters.x.high"],
        ["3", "parameters.x.low"],
        ["4", "trials"],
        ["5", "seed"],
    ]


def test_aliases_that_multiply_are_read_once(tmp_path: Path) -> None:
    levels = "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 40))
    with pytest.raises(StudyFileError, match="a0: unknown field"):
        read(tmp_path, f"a0: &a0 [x]\n{levels}")


def test_an_error_shows_the_path_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text("name: s\n", encoding="utf-8")
    with pytest.raises(StudyFileError, match=r"^study\.yaml:1: 'parameters' is missing$"):
        StudyFile.read("study.yaml")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError, match=r"none\.yaml: cannot be read: No such file or directory"):
        StudyFile.read(tmp_path / "none.yaml")
    with pytest.raises(StudyFileError, match="cannot be read: Is a directory"):
        StudyFile.read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("name: é\n".encode("latin-1"))
    with pytest.raises(StudyFileError, match="expected a text file in UTF-8, got the byte 0xe9"):
        StudyFile.read(tmp_path / "latin.yaml")


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(SMALL, encoding="utf-8-sig")
    assert StudyFile.read(tmp_path / "study.yaml").name == "s"


@pytest.mark.parametrize("text", ["name: &a [*a]\n", "&a {name: *a}\n", "name: " + "[" * 400 + "\n"])
def test_files_that_contain_themselves_or_nest_for_ever_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(StudyFileError, match=r"study.yaml"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "url", ["postgresql://me:hush@db.example/x", "postgres//me:hush@db", "pg://db/x?password=hush&a=1", "x:hush@y"]
)
def test_an_error_never_shows_a_password(tmp_path: Path, url: str) -> None:
    with pytest.raises(StudyFileError) as caught:
        read(tmp_path, SMALL + f"storage: {url}\ntrials: 0\n")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("more", ["directions: [minimize, maximize]\n", "objectives: [loss, time]\n"])
def test_several_objectives_are_refused_with_ways_out(tmp_path: Path, more: str) -> None:
    with pytest.raises(StudyFileError, match=r"Ways out: combine them .* NSGAIISampler"):
        StudyFile.read(write_study(tmp_path, more=more))
    with pytest.raises(StudyFileError, match="direction: a study has one objective"):
        StudyFile.read(write_study(tmp_path, direction="[minimize, maximize]"))
