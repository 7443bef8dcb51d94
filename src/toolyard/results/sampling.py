"""Which of many to look at."""


def spread(count: int, most: int) -> list[int]:
    """Positions, evenly spread, from the first to the last."""
    if count <= most:
        return list(range(count))
    return [at * (count - 1) // (most - 1) for at in range(most)]
