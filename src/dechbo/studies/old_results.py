"""Old results of other tools as rows: an Optuna database, and the JSON of Ax or scikit-optimize.

A row has the columns of a CSV file (``params.x``, ``value``, ``state``), so that one reader, ``trial_csv``, checks all.
Tested in test_old_results.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dechbo.data.csv import cell
from dechbo.errors import MANY_OBJECTIVES, DataError, StudyError, format_list
from dechbo.space import Space

Row = dict[str, Any]


def is_database(source: str) -> bool:
    """Whether ``source`` is a URL or a SQLite file, not a table or JSON."""
    return "://" in source or Path(source).suffix.lower() in (".db", ".sqlite", ".sqlite3")


def optuna_rows(source: str, study: str | None) -> list[Row]:
    """The trials of an Optuna study; ``study`` names it if the database has several."""
    import optuna

    from dechbo.studies.storage import file_url, make_storage, redacted_url, storage_errors

    url = source if "://" in source else file_url(Path(source).absolute())
    if "://" not in source and not Path(source).is_file():
        raise DataError(f"{source}: there is no such file")
    where = redacted_url(url)
    storage = make_storage(url, heartbeat=False, existing=True, readonly=True)
    with storage_errors(url):
        names = [summary.study_name for summary in optuna.get_all_study_summaries(storage)]
        chosen = names[0] if study is None and len(names) == 1 else study
        if chosen is None or chosen not in names:
            raise StudyError(f"{where} has the studies {format_list(names)}: name one with --study NAME")
        found = optuna.load_study(storage=storage, study_name=chosen)
        if len(found.directions) > 1:
            raise StudyError(
                f"study {chosen!r} has {len(found.directions)} objectives, and dechbo takes one. {MANY_OBJECTIVES}"
            )
        trials = found.get_trials(deepcopy=False)
    rows = []
    for trial in trials:
        limits = {f"constraint:{name}": value for name, value in trial.constraints.items()}
        value = trial.value if trial.state.name == "COMPLETE" else None
        rows.append({**_named(trial.params), "value": value, "state": trial.state.name.lower(), **limits})
    return rows


def json_rows(path: Path, space: Space, value: str | None) -> list[Row]:
    """The results of a JSON file: Ax's snapshot, scikit-optimize's lists, or a list of {"params": …, "value": …}."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    try:
        if isinstance(content, Mapping) and "x_iters" in content:
            return list(_skopt(content, space))
        if isinstance(content, Mapping) and ("experiment" in content or "trials" in content):
            return list(_ax(content.get("experiment", content), value))
        if isinstance(content, list):
            return [{**_named(row["params"]), "value": row.get("value")} for row in content]
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise DataError(f"{path}: looks like old results, but {type(error).__name__} {error}") from None
    raise DataError(
        f'{path}: expected Ax\'s snapshot, scikit-optimize\'s {{"x_iters": …, "func_vals": …}} or '
        '[{"params": {…}, "value": …}, …]'
    )


def _skopt(content: Mapping[str, Any], space: Space) -> Iterator[Row]:
    """scikit-optimize's OptimizeResult: points in the order of ``names``, or of the study's parameters."""
    names: Sequence[str] = content.get("names") or space.names
    points, values = content["x_iters"], content["func_vals"]
    if len(points) != len(values):
        raise ValueError(f"{len(points)} points and {len(values)} values")
    for point, value in zip(points, values, strict=True):
        if len(point) != len(names):
            raise ValueError(f'a point has {len(point)} values for {len(names)} names: give "names": […]')
        yield {**_named(dict(zip(names, point, strict=True))), "value": value}


def _ax(experiment: Mapping[str, Any], value: str | None) -> Iterator[Row]:
    """Ax: the arm of each trial, and the mean of its metric in the newest data."""
    trials = experiment["trials"]
    for index, trial in trials.items() if isinstance(trials, Mapping) else enumerate(trials):
        run = trial.get("generator_run") or (trial.get("generator_run_structs") or [{}])[0].get("generator_run", trial)
        parameters = run["arms"][0]["parameters"] if "arms" in run else run["parameters"]
        means = dict(_ax_means(experiment.get("data_by_trial", {}), str(index)))
        mean: float | None
        if value is not None and value in means:
            mean = means[value]
        elif value is None and len(means) <= 1:
            mean = next(iter(means.values()), None)
        else:
            raise ValueError(f"trial {index} has the metrics {sorted(means)}: name one with --value METRIC")
        yield {**_named(parameters), "value": mean, "state": "complete" if mean is not None else "running"}


def _ax_means(data: Mapping[str, Any], index: str) -> Iterator[tuple[str, float]]:
    entries = data.get("value", data)
    pairs = dict(entries) if isinstance(entries, Mapping) else {str(key): found for key, found in entries}
    found = pairs.get(index)
    if found is None:
        return
    versions = found.get("value", found) if isinstance(found, Mapping) else found
    newest = versions[-1][1] if isinstance(versions, list) else versions
    frame = newest["df"]
    table = json.loads(frame["value"]) if isinstance(frame.get("value"), str) else frame
    for row, name in table["metric_name"].items():
        yield str(name), float(table["mean"][row])


def _named(params: Mapping[str, Any]) -> Row:
    return {f"params.{name}": value for name, value in params.items()}


def as_records(rows: Sequence[Row], space: Space) -> tuple[list[str], list[list[str]]]:
    """The header and the cells of rows, as a CSV file would have them."""
    header = list(dict.fromkeys(name for row in rows for name in row)) or ["value"]
    known = {f"params.{name}" for name in space.names}
    header += [name for name in sorted(known) if name not in header and space[name.removeprefix("params.")].when]
    return header, [[cell(row.get(name)) for name in header] for row in rows]
