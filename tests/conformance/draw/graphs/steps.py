"""What a graph may go on with: the list to which each file of this folder adds."""

from .evaluate import Unfit

STEPS = []
# How much likelier a step of the family is that the graph is mostly of.
THEMED = 6


def step(weight=1.0):
    """Registers a function that adds nodes to a graph, chosen so often."""

    def registered(function):
        STEPS.append((weight, function))
        return function

    return registered


def take(g, control=True):
    """Adds what one of the steps makes; one that does not fit adds less, or nothing."""
    families = {f: f.__module__.rsplit(".", 1)[-1] for _, f in STEPS}
    choices = [(weight, f) for weight, f in STEPS if control or families[f] != "control"]
    weights = [weight * (THEMED if families[f] == g.theme else 1) for weight, f in choices]
    chosen = g.rng.choice(len(choices), p=[weight / sum(weights) for weight in weights])
    try:
        choices[chosen][1](g)
    except Unfit:
        pass
