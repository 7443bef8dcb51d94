"""When things happen: the same in every run."""

NOW = "2026-09-30T12:00:00Z"
"""Whatever happens through the API happens then."""


def day(number: int, time: str = "09:30:00") -> str:
    """A moment on the so-manieth day from the first of August 2026."""
    month, rest = divmod(number, 28)
    return f"2026-{8 + month:02d}-{rest + 1:02d}T{time}Z"
