"""Numbers, durations, sparklines, certificates, interactions and errors as the terminal shows them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from ruamel.yaml import YAML

from dechbo.interactions import Interaction
from dechbo.optimizer import AskInfo
from dechbo.studies import formatting


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *[(0, "0 ms"), (0.004, "4 ms"), (0.31, "0.31 s"), (9.5, "9.5 s"), (42.4, "42 s"), (59.7, "1 min")],
        *[(120, "2 min"), (200, "3 min 20 s"), (3600, "1 h"), (7500, "2 h 5 min"), (86400, "1 d"), (273600, "3 d 4 h")],
        *[(4.12, "4.1 s"), (3725, "1 h 2 min"), (math.nan, "–")],
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert formatting.duration(seconds) == text


def test_a_sparkline_ends_with_the_last_value_and_fits() -> None:
    assert formatting.sparkline([3, 2, 1, 0]) == "█▅▃▁"
    assert formatting.sparkline([1.0] * 5) == "▁▁▁▁▁"
    assert len(formatting.sparkline(range(1000), 40)) == 40
    assert formatting.sparkline(range(1000), 40)[-1] == "█"
    assert (
        formatting.sparkline([math.nan, math.inf]) == formatting.sparkline([]) == formatting.sparkline([1.0], 0) == ""
    )


def test_the_certificate_or_why_there_is_none() -> None:
    def said(source: str, acquisition: str, gap: float = math.nan, certified: bool = False) -> str:
        return formatting.certificate(AskInfo(source, 0.0, acquisition, gap=gap, certified=certified))

    texts = {
        formatting.certificate(None): "–",
        said("initial design", ""): "initial design",
        said("max-sum", "factors", 0.0, True): "0: proven best",
        said("max-sum", "improvement", 1e-7, True): "below 0.01%",
        said("max-sum", "bound", 0.0125, True): "at most 1.25%",
        said("max-sum", "factors"): "too many parameters",
        said("max-sum", "improvement", 0.0): "committee's expected improvement",
        said("incumbent", "bound"): "committee's bound",
        said("spread", "feasibility"): "most probably feasible",
        said("spread", "something new"): "chosen by the committee",
    }
    assert len(texts) == 10
    assert all(part in text for text, part in texts.items())


def test_interactions_as_sentences_with_probability_and_share() -> None:
    pair = Interaction(("lr", "width", "act"), 0.97, 0.123)
    assert (
        formatting.interaction_sentence(pair, 5)
        == "12% of the variance: lr, width and act almost certainly interact (97%)"
    )
    unsure = formatting.interaction_sentence(pair, 5, converged=False)
    assert unsure == "12% of the variance: lr, width and act may interact"
    assert formatting.interaction_sentence(Interaction(("a", "b"), 0.4, 0.0), 5).startswith(
        "no effect so far: a and b perhaps interact, too weakly to matter (40%)"
    )
    assert formatting.interaction_sentence(Interaction(("a", "b", "c"), 0.8, 0.8), 3).startswith(
        "80% of the variance: all parameters probably"
    )


def test_errors_of_one_kind_come_from_the_same_line_whatever_their_numbers() -> None:
    trace = 'Traceback (most recent call last):\n  File "train.py", line {line}, in run\n    x\n{end}'
    first = trace.format(line=4, end="ValueError: loss 3.5")
    assert formatting.error_kind(first) == formatting.error_kind(trace.format(line=4, end="ValueError: loss 17"))
    assert formatting.error_kind(first) != formatting.error_kind(trace.format(line=9, end="ValueError: loss 3.5"))
    assert formatting.error_kind(first) != formatting.error_kind(trace.format(line=4, end="KeyError: 'x'"))
    assert formatting.error_kind("stopped after 10 s") == formatting.error_kind("stopped after 12.5 s")
    assert formatting.error_summary(first) == "ValueError: loss 3.5"
    assert formatting.error_summary("ended with code 1:\nsomething") == "ended with code 1:"
    command = "the command failed with exit code 1; its last output:\nTraceback …\nValueError: bad"
    assert formatting.error_summary(command) == "the command failed with exit code 1: ValueError: bad"
    assert formatting.error_summary(None) == "no reason given"


def test_a_long_error_is_cut_but_its_kind_is_not() -> None:
    long = "the model said " + "x" * 10_000
    assert len(formatting.error_summary(long)) == 200
    assert formatting.error_summary(long).endswith("x…")
    filler = "y" * 180
    assert formatting.error_kind(f"{filler} 1 and then far behind") == formatting.error_kind(
        f"{filler} 123456 and then far behind"
    )


def test_parameters_to_copy_keep_every_digit_and_type() -> None:
    params: dict[str, Any] = {
        "lr": 1e-05,
        "x": 0.1 + 0.2,
        "n": 3,
        "flag": True,
        "none": None,
        "text": "yes",
        "colon": "a: b",
        "s": "1.0",
        "é": "12:30",
        "lines": "a\nb",
    }
    for version in ((1, 1), (1, 2)):
        reader = YAML(typ="safe", pure=True)
        reader.version = version
        read = reader.load(formatting.as_yaml(params))
        assert list(read.items()) == list(params.items())
