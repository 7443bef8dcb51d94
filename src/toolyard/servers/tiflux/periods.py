"""The period before a period."""

from datetime import UTC, datetime, timedelta


class NoPeriod(ValueError):
    """The message names the argument at fault."""


def before(start: str, end: str) -> tuple[str, str]:
    """As long as this one, and over a second before it begins."""
    first, last = _moment("start_datetime", start), _moment("end_datetime", end)
    if last <= first:
        raise NoPeriod("end_datetime")
    try:
        over = first - timedelta(seconds=1)
        return (over - (last - first)).isoformat(), over.isoformat()
    except OverflowError:  # nothing was before the year 1
        raise NoPeriod("start_datetime") from None


def _moment(name: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise NoPeriod(name) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
