"""Logs, to standard error."""

import sys


def to_stderr(debug: bool) -> None:
    import logging  # comes with asyncio; `toolyard --version` does without both

    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
