"""Random choices for one case, determined by its seed."""

import zlib

import numpy as np
import runtime_schemas
from onnx import defs, helper

from . import types
from .case import Case, as_value
from .types import BOOL, I64, STRING

# The newest version of each operator set.
NEWEST = {
    "": 28,
    "ai.onnx.ml": 5,
    "ai.onnx.preview": 1,
    "ai.onnx.preview.training": 1,
    runtime_schemas.DOMAIN: 1,
}
WORDS = ("", "a", "A", "ab", "Zürich", "the", "cat", "CAT", "3", "-1.5", "日本", "a b", "x\ty")


# The schemas of the operators that ONNX Runtime adds.
RUNTIME_SCHEMAS = {(s.domain, s.name, s.since_version): s for s in runtime_schemas.schemas()}


class Choices:
    """Random choices from one generator."""

    def __init__(self, rng):
        self.rng = rng

    # Choices.

    def chance(self, probability):
        return bool(self.rng.random() < probability)

    def int(self, low, high):
        """Returns an integer in `low..=high`."""
        return int(self.rng.integers(low, high + 1))

    def float(self, low, high):
        """Returns a number that single precision represents exactly."""
        return float(np.float32(self.rng.uniform(low, high)))

    def one_of(self, choices):
        return choices[self.int(0, len(choices) - 1)]

    def some(self, choices, least=0):
        """Returns some of the choices, in random order."""
        count = self.int(least, len(choices))
        return [choices[i] for i in self.rng.permutation(len(choices))[:count]]

    def maybe(self, value, probability=0.5):
        """Returns the value, or None."""
        return value if self.chance(probability) else None

    # Shapes.

    def shape(self, least=0, most=4, size=(1, 5), empty=0.05):
        """Returns a shape with a rank and sizes in these ranges; sometimes with an empty axis."""
        shape = [self.int(*size) for _ in range(self.int(least, most))]
        if shape and self.chance(empty):
            shape[self.int(0, len(shape) - 1)] = 0
        return tuple(shape)

    def broadcast(self, shape, one_way=True):
        """Returns a shape that can be broadcast to this one."""
        kept = shape[self.int(0, len(shape)) :]
        return tuple(1 if size != 0 and self.chance(0.25) else size for size in kept)

    def axis(self, rank, past=0):
        """Returns an axis, counted from either end."""
        return self.int(-rank - past, rank - 1 + past)

    # Values.

    def tensor(self, dtype, shape=None, low=-4, high=4, extremes=0.15):
        """Returns a tensor of numbers in `low..=high`, sometimes with extreme values among them."""
        shape = self.shape() if shape is None else tuple(shape)
        if dtype == STRING:
            return np.array(
                [self.one_of(WORDS) for _ in range(int(np.prod(shape)))], object
            ).reshape(shape)
        if dtype == BOOL:
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype in types.COMPLEX:
            parts = self.rng.uniform(low, high, (2, *shape))
            return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
        if dtype in types.INTEGERS + types.NIBBLES:
            return self.integers(dtype, shape, low, high, extremes)
        numbers = np.asarray(self.rng.uniform(low, high, shape))
        if dtype in types.FLOATS and self.chance(extremes):
            some = self.rng.random(shape) < 0.3
            numbers = np.where(
                some, self.rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), numbers
            )
        with np.errstate(all="ignore"):
            return numbers.astype(dtype)

    def integers(self, dtype, shape, low=-4, high=4, extremes=0.0):
        least, most = types.limits(dtype)
        low, high = max(int(low), least), min(int(high), most)
        numbers = self.rng.integers(low, high, shape, endpoint=True)
        if self.chance(extremes):
            ends = np.array([least, most], dtype)[self.rng.integers(0, 2, shape)]
            return np.where(self.rng.random(shape) < 0.3, ends, numbers.astype(dtype))
        return np.asarray(numbers).astype(dtype)

    def ints(self, values, dtype=I64):
        """Returns a tensor with one axis."""
        return np.array(values, dtype).reshape(-1)


class Draw(Choices):
    """The choices for a case of a version of an operator, by its number."""

    def __init__(self, domain, op, version, until, seed, number):
        self.domain, self.op, self.version, self.number = domain, op, version, number
        name = zlib.crc32(f"{domain}.{op}".encode())
        super().__init__(np.random.default_rng([seed, name, version, number]))
        # Any operator set that contains this version.
        self.opset = self.int(version, until)
        self.schema = RUNTIME_SCHEMAS.get((domain, op, version)) or defs.get_schema(
            op, version, domain
        )

    # Attributes and types.

    def attributes(self, **values):
        """Returns the attributes that are not None and that this version has."""
        has = self.schema.attributes
        return {name: value for name, value in values.items() if value is not None and name in has}

    def value(self, attributes, name):
        """Returns the value of an attribute, or its default in the schema."""
        default = self.schema.attributes[name].default_value
        value = attributes.get(name, helper.get_attribute_value(default) if default.type else None)
        return value.decode() if isinstance(value, bytes) else value

    def type(self, parameter="T", among=None):
        """Returns an element type that the schema allows for a parameter."""
        allowed = next(c for c in self.schema.type_constraints if c.type_param_str == parameter)
        names = [
            text.split("(")[1].rstrip(")")
            for text in allowed.allowed_type_strs
            if text.startswith("tensor(")
        ]
        choices = [types.BY_NAME[name] for name in names]
        choices = [dtype for dtype in choices if among is None or dtype in among]
        # Most models have single precision.
        if types.F32 in choices and self.chance(0.3):
            return types.F32
        return self.one_of(choices)

    # Cases.

    def case(
        self,
        inputs,
        reference=None,
        outputs=1,
        constant=(),
        running=(),
        symbolic=True,
        opsets=None,
        **rest,
    ):
        """Returns a case of one node.

        Inputs in `constant` are initializers and those in `running` are not; the others may be.
        """
        attributes = rest.pop("attributes", {})
        inputs, constants = [as_value(x) for x in inputs], set(constant)
        for i, x in enumerate(inputs):
            small = isinstance(x, np.ndarray) and x.ndim <= 1 and x.dtype == I64
            if (
                i not in running
                and isinstance(x, np.ndarray)
                and self.chance(0.5 if small else 0.15)
            ):
                constants.add(i)
        return Case(
            domain=self.domain,
            op=self.op,
            opsets=opsets or {self.domain: self.opset},
            inputs=inputs,
            attributes={name: value for name, value in attributes.items() if value is not None},
            outputs=[True] * outputs if isinstance(outputs, int) else list(outputs),
            reference=reference,
            constants=constants & {i for i, x in enumerate(inputs) if isinstance(x, np.ndarray)},
            symbolic=bool(symbolic) and self.chance(0.3),
            **rest,
        )
