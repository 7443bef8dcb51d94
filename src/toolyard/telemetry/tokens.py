"""Tokens estimated from bytes: models' tokenisers make one of about three and a half bytes of JSON."""

BYTES_PER_TOKEN = 3.5


def tokens(size: int) -> int:
    return round(size / BYTES_PER_TOKEN)
