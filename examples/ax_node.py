"""dechbo inside Ax, as an ExternalGenerationNode: 24 trials, two at a time.

Needs Ax, which installs PyTorch: pip install ax-platform
"""

import math

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.base_trial import TrialStatus
from ax.core.parameter import ChoiceParameter, ParameterType, RangeParameter
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy

from dechbo import Categorical, Float, Int, Optimizer, Space
from dechbo.data.evaluation import Evaluation


class DecHBONode(ExternalGenerationNode):
    """Pass Ax's trials to an Optimizer and ask it for the next point."""

    def __init__(self, **options) -> None:
        super().__init__(name="dechbo")
        self.options = options
        self.optimizer = None
        self.evaluations = []

    def update_generator_state(self, experiment, data) -> None:
        """Build the optimizer once, then collect all trials that have ended."""
        objective = experiment.optimization_config.objective
        if self.optimizer is None:
            space = Space({name: parameter_of(p) for name, p in experiment.search_space.tunable_parameters.items()})
            direction = "minimize" if objective.minimize else "maximize"
            self.optimizer = Optimizer(space, direction=direction, **self.options)
        rows = data.df[data.df["metric_name"] == objective.metric_names[0]]
        means = {int(row.trial_index): float(row["mean"]) for _, row in rows.iterrows()}
        self.evaluations = []
        for index, trial in sorted(experiment.trials.items()):
            if index in means or trial.status in (TrialStatus.FAILED, TrialStatus.ABANDONED):
                self.evaluations.append(Evaluation.of(dict(trial.arm.parameters), means.get(index)))

    def get_next_candidate(self, pending_parameters) -> dict:
        """Suggest a point, given the ended and the running trials."""
        self.optimizer.replay(self.evaluations, pending=pending_parameters)
        return self.optimizer.ask()


def parameter_of(parameter):
    """Convert a parameter of Ax to one of dechbo."""
    if isinstance(parameter, ChoiceParameter):
        return Categorical(parameter.values)
    if isinstance(parameter, RangeParameter):
        kind = Int if parameter.parameter_type == ParameterType.INT else Float
        return kind(parameter.lower, parameter.upper, log=parameter.log_scale)
    raise TypeError(f"{parameter.name} is neither a range nor a choice")


def loss(lr: float, layers: int, act: str) -> float:
    """A stand-in for a training run."""
    return (math.log10(lr) + 2) ** 2 + 0.1 * (layers - 5) ** 2 + (act == "tanh")


if __name__ == "__main__":
    client = Client()
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(name="lr", bounds=(1e-4, 1e-1), parameter_type="float", scaling="log"),
            RangeParameterConfig(name="layers", bounds=(1, 8), parameter_type="int"),
            ChoiceParameterConfig(name="act", values=["relu", "tanh"], parameter_type="str", is_ordered=False),
        ]
    )
    client.configure_optimization(objective="-loss")
    node = DecHBONode(seed=0)
    client.set_generation_strategy(GenerationStrategy(name="dechbo", nodes=[node]))
    n_trials = 0
    while n_trials < 24:
        for index, params in client.get_next_trials(max_trials=2).items():
            client.complete_trial(index, raw_data={"loss": loss(**params)})
            n_trials += 1
    params, values, index, _ = client.get_best_parameterization(use_model_predictions=False)
    print(f"best of {n_trials} trials: number {index}, loss {values['loss'][0]:.4f}")
    for name, value in params.items():
        print(f"  {name} = {value}")
    print(f"the last point came from: {node.optimizer.info.source}")
