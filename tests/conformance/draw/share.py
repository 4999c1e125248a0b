"""A share of the cases: a run on every change tests some of them, a nightly one all."""

from typing import NamedTuple


class Share(NamedTuple):
    """Every `count`th case, from the `number`th one on."""

    number: int
    count: int

    @staticmethod
    def parse(text):
        """Reads `1/2`, the first of two shares."""
        number, count = map(int, text.split("/"))
        if not 1 <= number <= count:
            raise ValueError(text)
        return Share(number, count)

    def of(self, cases):
        """Returns this share of a sequence."""
        return cases[self.number - 1 :: self.count]

    def is_whole(self):
        return self.count == 1


def add_argument(parser):
    """Adds the option `--share`."""
    parser.add_argument(
        "--share",
        type=Share.parse,
        default=Share(1, 1),
        metavar="NUMBER/COUNT",
        help="generate only this share of the cases: 1/2 and 2/2 are together all of them",
    )
