"""The files that ``dechbo init`` writes: a commented study that runs as it is. Tested in test_commands.py."""

from __future__ import annotations

from pathlib import Path

from dechbo.errors import StudyFileError

OBJECTIVE = "train.py"
STUDY = """# A study for dechbo. It runs as it is:  dechbo optimize {file}
# All fields: docs/studies.md

name: {name}                # trials are stored under this name: take a new one when you change what is evaluated
direction: minimize         # or maximize

# The parameters. Names are yours.
parameters:
  lr:      {{type: float, low: 1.0e-5, high: 1, log: true}}   # log: 1e-5 to 1e-4 matters as much as 0.1 to 1
  drop:    {{type: float, low: 0, high: 0.9, step: 0.05}}     # step: only these values
  layers:  {{type: int, low: 1, high: 8}}
  width:   {{type: int, low: 8, high: 512, log: true}}
  act:     {{type: categorical, choices: [relu, tanh]}}

# What a trial evaluates: the function run in train.py next to this file, called as run(lr=…, drop=…, …).
# It returns a number, or {{"value": …, "constraints": {{"memory": …}}}} (feasible at or below 0).
objective:
  python: "{module}:run"
  # command: "python train.py --lr {{lr}} --drop {{drop}} --layers {{layers}} --width {{width}} --act {{act}}"
  #   (instead of python; without a shell; the last line of its output is the value)
  # timeout: 600            # seconds per evaluation
  # retries: 1              # retries of a failed evaluation

trials: 40                  # in total; `dechbo optimize {file} --trials 80` adds more
seed: 0                     # same seed, same trials (with one worker)

# factors: [[lr, width]]    # parameters that interact, if you know them; learned by default
# constraints: ["layers + 10*drop <= 12"]   # known linear constraints, never violated
# storage: sqlite:///{name}.db   # the default; postgresql://user@host/database for several machines
#                             (its password in ~/.pgpass or $PGPASSWORD, never in this file)
"""
TRAIN = '''"""The objective of the study in {file}. Put your own training here."""

import argparse
import math


def run(lr, drop, layers, width, act):
    """Stands in for a training run: the loss of a network with these settings."""
    depth = abs(layers - 3) * (0.15 if act == "relu" else 0.3)
    step = (math.log10(lr) + 3 - 0.5 * math.log10(64 / width)) ** 2  # wide networks want small steps
    return 0.1 + 0.2 * step + depth + 0.5 * (drop - 0.25) ** 2 + 2 / width


if __name__ == "__main__":  # for the study's command: python train.py --lr 0.01 …
    parser = argparse.ArgumentParser()
    for name, kind in {{"lr": float, "drop": float, "layers": int, "width": int, "act": str}}.items():
        parser.add_argument(f"--{{name}}", type=kind, required=True)
    print(run(**vars(parser.parse_args())))
'''


def write(path: Path, *, force: bool = False) -> list[Path]:
    """Write the study file, and an objective next to it unless there is one; returns the files written."""
    if path.suffix not in (".yaml", ".yml"):
        raise StudyFileError(
            f"the name of a study file must end in .yaml, got {str(path)!r}: dechbo init {path.name or 'study'}.yaml"
        )
    if not path.parent.is_dir():
        raise StudyFileError(f"there is no folder {str(path.parent)!r} to write {path.name} into")
    if path.exists() and not force:
        raise StudyFileError(f"{path} exists already; --force overwrites it")
    objective = path.with_name(OBJECTIVE)
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in path.stem) or "study"
    page = STUDY.format(file=path, name=name, module=objective.stem)
    written = [path]
    try:
        path.write_text(page, encoding="utf-8")
        if not objective.exists():  # never overwrite the user's own code, even with --force
            objective.write_text(TRAIN.format(file=path.name), encoding="utf-8")
            written.append(objective)
    except OSError as error:
        raise StudyFileError(f"{path} cannot be written: {error.strerror}") from None
    return written
