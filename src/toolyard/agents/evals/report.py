"""What attempts come to: pass rates, means, and the difference between two configurations."""

from collections.abc import Iterator, Sequence
from statistics import mean

from msgspec import Struct

from .evaluation import EvalAttempt


class EvalFigures(Struct, frozen=True, kw_only=True):
    """Attempts of one case, or all of a report. Figures are means of an attempt."""

    name: str
    attempts: int
    passed: int
    turns: float
    tool_calls: float
    input_tokens: float
    output_tokens: float
    cost: float | None
    seconds: float
    problems: tuple[str, ...] = ()

    @property
    def pass_rate(self) -> float:
        return self.passed / self.attempts if self.attempts else 0.0


class EvalReport(Struct, frozen=True, kw_only=True):
    """One configuration's attempts."""

    configuration: str
    total: EvalFigures
    cases: tuple[EvalFigures, ...]
    missing: int = 0
    """Attempts that did not run because the eval was stopped."""

    @classmethod
    def of(cls, configuration: str, attempts: Sequence[EvalAttempt], planned: int) -> "EvalReport":
        by_case: dict[str, list[EvalAttempt]] = {}
        for attempt in attempts:
            by_case.setdefault(attempt.case, []).append(attempt)
        return cls(
            configuration=configuration,
            total=_figures("all", attempts),
            cases=tuple(_figures(name, found) for name, found in by_case.items()),
            missing=planned - len(attempts),
        )


class EvalDifference(Struct, frozen=True):
    """A case that two configurations do not do equally well."""

    case: str
    passed: tuple[str, str]
    problems: tuple[str, ...]


class EvalComparison(Struct, frozen=True):
    configurations: tuple[str, str]
    input_tokens_change: float | None
    """Of the second against the first: -0.5 is half."""
    output_tokens_change: float | None
    turns_change: float | None
    cost_change: float | None
    differences: tuple[EvalDifference, ...]


def compare_reports(one: EvalReport, other: EvalReport) -> EvalComparison:
    """Means are compared over the cases that both have run."""
    first, second = ({case.name: case for case in report.cases} for report in (one, other))
    shared = [name for name in first if name in second]

    def change(field: str) -> float | None:
        values = [(getattr(first[name], field), getattr(second[name], field)) for name in shared]
        if not values or any(value is None for pair in values for value in pair):
            return None
        before, after = (sum(pair[side] for pair in values) for side in (0, 1))
        return None if not before else round(after / before - 1, 4)

    return EvalComparison(
        (one.configuration, other.configuration),
        change("input_tokens"),
        change("output_tokens"),
        change("turns"),
        change("cost"),
        tuple(_differences(first, second, shared)),
    )


def _differences(
    first: dict[str, EvalFigures], second: dict[str, EvalFigures], shared: Sequence[str]
) -> Iterator[EvalDifference]:
    for name in shared:
        one, other = first[name], second[name]
        if one.pass_rate != other.pass_rate:
            worse = one if one.pass_rate < other.pass_rate else other
            shown = (f"{one.passed}/{one.attempts}", f"{other.passed}/{other.attempts}")
            yield EvalDifference(name, shown, worse.problems)


def _figures(name: str, attempts: Sequence[EvalAttempt]) -> EvalFigures:
    costs = [attempt.cost for attempt in attempts]
    known = [cost for cost in costs if cost is not None]

    def average(values: Sequence[float]) -> float:
        return round(mean(values), 4) if values else 0.0

    return EvalFigures(
        name=name,
        attempts=len(attempts),
        passed=sum(attempt.is_passed for attempt in attempts),
        turns=average([attempt.turns for attempt in attempts]),
        tool_calls=average([attempt.tool_calls for attempt in attempts]),
        input_tokens=average([attempt.usage.input for attempt in attempts]),
        output_tokens=average([attempt.usage.output for attempt in attempts]),
        cost=average(known) if known and len(known) == len(costs) else None,
        seconds=average([attempt.seconds for attempt in attempts]),
        problems=tuple(dict.fromkeys(problem for attempt in attempts for problem in attempt.problems)),
    )
