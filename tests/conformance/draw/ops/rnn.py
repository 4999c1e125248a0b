"""Recurrent networks."""

import numpy as np

from ..registry import operator
from ..types import F64, I32

sigmoid = lambda x: 1 / (1 + np.exp(-x))

# Each activation, and the defaults of its parameters.
FUNCTIONS = {
    "Affine": (lambda x, a, b: a * x + b, 1.0, 0.0),
    "Elu": (lambda x, a: np.where(x < 0, a * np.expm1(x), x), 1.0),
    "HardSigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 0.2, 0.5),
    "LeakyRelu": (lambda x, a: np.where(x < 0, a * x, x), 0.01),
    "Relu": (lambda x: np.maximum(x, 0),),
    "ScaledTanh": (lambda x, a, b: a * np.tanh(b * x), 1.0, 1.0),
    "Sigmoid": (sigmoid,),
    "Softplus": (lambda x: np.logaddexp(x, 0),),
    "Softsign": (lambda x: x / (1 + np.abs(x)),),
    "Tanh": (np.tanh,),
    "ThresholdedRelu": (lambda x, a: np.where(x >= a, x, 0), 1.0),
}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def activations(d, ways):
    """Returns the activations of each direction, and their attributes."""
    defaults = DEFAULTS[d.op]
    if d.chance(0.6):
        return [[FUNCTIONS[name][0] for name in defaults]] * ways, {}
    names = [d.one_of(list(FUNCTIONS)) for _ in range(ways * len(defaults))]
    functions, alphas, betas = [], [], []
    given = d.chance(0.5)
    for name in names:
        function, *numbers = FUNCTIONS[name]
        # The parameters are consumed in the order of the activations that have some.
        numbers = [float(np.float32(number)) for number in numbers]
        if given:
            numbers = [d.float(0.25, 1) for _ in numbers]
            alphas += numbers[:1]
            betas += numbers[1:]
        functions.append(lambda x, function=function, numbers=numbers: function(x, *numbers))
    attributes = {
        "activations": names,
        "activation_alpha": alphas or None,
        "activation_beta": betas or None,
    }
    return np.array_split(np.array(functions, object), ways), attributes


def rnn_step(cell, x, h, c, w, r, b, p):
    hidden = h.shape[-1]
    return cell.f[0](cell.clip(x @ w.T + h @ r.T + b[:hidden] + b[hidden:])), c


def gru_step(cell, x, h, c, w, r, b, p):
    n = h.shape[-1]
    wb, rb = b[: 3 * n], b[3 * n :]
    gates, state = x @ w.T + wb, h @ r.T + rb
    z, reset = (
        cell.f[0](cell.clip(gates[:, i * n : (i + 1) * n] + state[:, i * n : (i + 1) * n]))
        for i in (0, 1)
    )
    if cell.linear_before_reset:
        inner = reset * state[:, 2 * n :]
    else:
        inner = (reset * h) @ r[2 * n :].T + rb[2 * n :]
    new = cell.f[1](cell.clip(gates[:, 2 * n :] + inner))
    return (1 - z) * new + z * h, c


def lstm_step(cell, x, h, c, w, r, b, p):
    n = h.shape[-1]
    i, o, f, g = np.split(x @ w.T + h @ r.T + b[: 4 * n] + b[4 * n :], 4, 1)
    pi, po, pf = np.split(p, 3)
    i = cell.f[0](cell.clip(i + pi * c))
    f = 1 - i if cell.input_forget else cell.f[0](cell.clip(f + pf * c))
    c = f * c + i * cell.f[1](cell.clip(g))
    o = cell.f[0](cell.clip(o + po * c))
    return o * cell.f[2](c), c


STEPS = {"RNN": rnn_step, "GRU": gru_step, "LSTM": lstm_step}


class Cell:
    """The parameters of a step in one direction."""

    def __init__(self, functions, attributes):
        self.f = functions
        bound = attributes.get("clip")
        self.clip = (lambda x: x) if bound is None else (lambda x: np.clip(x, -bound, bound))
        self.linear_before_reset = attributes.get("linear_before_reset")
        self.input_forget = attributes.get("input_forget")


@operator("RNN", "GRU", "LSTM")
def recurrent(d):
    dtype = d.type("T")
    steps, batch, inputs, hidden = d.int(1, 4), d.int(1, 3), d.int(1, 3), d.int(1, 4)
    direction = d.one_of(["forward", "forward", "reverse", "bidirectional"])
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[d.op]
    functions, attributes = activations(d, ways)
    attributes |= d.attributes(
        direction=direction,
        hidden_size=hidden,
        clip=d.maybe(d.float(0.5, 2), 0.3),
        linear_before_reset=d.maybe(d.int(0, 1)),
        input_forget=d.maybe(d.int(0, 1)),
        layout=d.maybe(d.int(0, 1)),
    )
    # In versions with an attribute for omitted outputs, the attribute decides.
    sequence = d.chance(0.7)
    attributes |= d.attributes(output_sequence=int(sequence))
    outputs = [sequence, *(d.chance(0.6) for _ in range(2 if d.op == "LSTM" else 1))]
    if d.version == 1 and d.op == "GRU" or not any(outputs):
        outputs[1] = True
    layout = attributes.get("layout", 0)
    tensor = lambda *shape: d.tensor(dtype, shape, -1.5, 1.5, 0)
    swap = lambda x: x.swapaxes(0, 1) if layout and x is not None else x
    x = tensor(steps, batch, inputs)
    w, r = tensor(ways, gates * hidden, inputs), tensor(ways, gates * hidden, hidden)
    b = d.maybe(tensor(ways, 2 * gates * hidden))
    lengths = d.maybe(d.integers(I32, [batch], 1, steps), 0.4)
    h = d.maybe(tensor(ways, batch, hidden))
    operands = [swap(x), w, r, b, lengths, swap(h)]
    if d.op == "LSTM":
        operands += [swap(d.maybe(tensor(ways, batch, hidden))), d.maybe(tensor(ways, 3 * hidden))]

    def reference(x, w, r, b=None, lengths=None, h=None, c=None, p=None):
        given = lambda a, *shape: np.zeros(shape) if a is None else a.astype(F64)
        x, h = swap(x).astype(F64), given(swap(h), ways, batch, hidden)
        c, p = given(swap(c), ways, batch, hidden), given(p, ways, 3 * hidden)
        b, w, r = given(b, ways, 2 * gates * hidden), w.astype(F64), r.astype(F64)
        y = np.zeros((steps, ways, batch, hidden))
        last = h.copy(), c.copy()
        for way in range(ways):
            cell = Cell(functions[way], attributes)
            backward = direction == "reverse" or way == 1
            for item in range(batch):
                length = steps if lengths is None else int(lengths[item])
                state = h[way, item : item + 1], c[way, item : item + 1]
                for t in reversed(range(length)) if backward else range(length):
                    state = STEPS[d.op](
                        cell, x[t, item : item + 1], *state, w[way], r[way], b[way], p[way]
                    )
                    y[t, way, item] = state[0][0]
                for kept, now in zip(last, state):
                    kept[way, item] = now[0]
        results = [y.transpose(2, 0, 1, 3) if layout else y, *(swap(kept) for kept in last)]
        return tuple(result.astype(dtype) for result, used in zip(results, outputs) if used)

    return d.case(operands, reference, outputs=outputs, attributes=attributes, fixed=(1, 2))
