"""Constraints: known linear ones, which no suggestion breaks, and a measured one, which is learned."""

from dechbo import Float, Optimizer, Space

# shares of an alloy: at most 1 in total, and at most twice as much tin as silver
space = Space(
    {"copper": Float(0, 1), "tin": Float(0, 1), "silver": Float(0, 1)},
    constraints=["copper + tin + silver <= 1", "tin <= 2*silver"],
)


def strength(copper: float, tin: float, silver: float) -> float:
    """A stand-in for a measurement, to be maximised."""
    return 3 * copper + 2 * tin - 4 * (copper - 0.5) ** 2 + 3 * copper * tin


def price(copper: float, tin: float, silver: float) -> float:
    """A stand-in for a second measurement; at most 0.6 is affordable."""
    return 0.5 * copper + 0.8 * tin + 2.5 * silver**1.2


optimizer = Optimizer(space, direction="maximize", seed=0)
for _ in range(30):
    params = optimizer.ask()
    assert sum(params.values()) <= 1 + 1e-9
    optimizer.tell(params, strength(**params), constraints={"price": price(**params) - 0.6})

evaluations = optimizer.evaluations
print(f"{sum(e.feasible for e in evaluations)} of {len(evaluations)} evaluations were affordable")
print("all satisfied the known constraints")
print(f"best {optimizer.best.value:.4f} at {optimizer.best.params}")
print(f"its price: {price(**optimizer.best.params):.3f}")
mean, deviation = optimizer.predict_constraints(optimizer.best.params)["price"]
print(
    f"price predicted by the model: {mean + 0.6:.3f} ± {deviation:.3f}; probability that it is affordable: "
    f"{optimizer.feasible_probability(optimizer.best.params):.2f}"
)
