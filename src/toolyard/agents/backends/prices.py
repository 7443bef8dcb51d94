"""What tokens cost: prices that the user states, because vendors change theirs.

There is no table of known prices. Without a price a cost is unknown (None), never zero.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec import Struct

from ..messages import TokenUsage
from .base import ModelError

MILLION = 1_000_000
FORM = (
    "write MODEL=INPUT/OUTPUT[/CACHE READ[/CACHE WRITE]] in dollars per million tokens, as in gpt-x=1.25/10"
)


class ModelPrice(Struct, frozen=True):
    """Dollars per million tokens. Cached tokens cost what other input costs, unless stated."""

    model: str
    """A name, possibly with `*`."""
    input: float
    output: float
    cache_read: float
    cache_write: float

    def cost(self, usage: TokenUsage) -> float:
        fresh = usage.input - usage.cache_read - usage.cache_write
        return (
            fresh * self.input
            + usage.output * self.output
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
        ) / MILLION


class Prices:
    """The first price whose name matches counts."""

    def __init__(self, prices: Iterable[ModelPrice] = ()) -> None:
        self._prices = tuple(prices)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> "Prices":
        """Reads `MODEL=INPUT/OUTPUT…`, several of them separated by commas; raises ModelError."""
        return cls(_price(text.strip()) for texts_ in texts for text in texts_.split(",") if text.strip())

    def __add__(self, other: "Prices") -> "Prices":
        return Prices(self._prices + other._prices)

    def cost(self, model: str, usage: TokenUsage) -> float | None:
        for price in self._prices:
            if fnmatchcase(model, price.model):
                return price.cost(usage)
        return None


def _price(text: str) -> ModelPrice:
    model, equals, numbers = text.rpartition("=")
    try:
        rates = [float(number) for number in numbers.split("/")]
    except ValueError:
        rates = []
    if not (model and equals and 2 <= len(rates) <= 4 and all(0 <= rate < MILLION for rate in rates)):
        raise ModelError("invalid", f"{text!r} is not a price", FORM)
    rates += rates[:1] * (4 - len(rates))
    return ModelPrice(model.strip(), *rates)
