"""The steps that extend a graph; each module of this package registers some."""

from .evaluate import Unfit

STEPS = []
# The factor by which steps of the graph's theme are more likely.
THEMED = 6


def step(weight=1.0):
    """Registers a function that adds nodes to a graph, with its relative frequency."""

    def registered(function):
        STEPS.append((weight, function))
        return function

    return registered


def take(g, control=True):
    """Takes a random step; one that does not fit adds fewer nodes, or none."""
    families = {f: f.__module__.rsplit(".", 1)[-1] for _, f in STEPS}
    choices = [(weight, f) for weight, f in STEPS if control or families[f] != "control"]
    weights = [weight * (THEMED if families[f] == g.theme else 1) for weight, f in choices]
    chosen = g.rng.choice(len(choices), p=[weight / sum(weights) for weight in weights])
    try:
        choices[chosen][1](g)
    except Unfit:
        pass
