"""Programs that come from the system and that some tests need. `make setup` installs them where it may.

Where it may not, exactly those tests are left out, and the end of the run says which programs are missing.
"""

import pytest

from scripts.bootstrap import PROGRAMS, find_program, missing_program

__all__ = ["find_program", "missing_programs", "need", "needs"]


def missing_programs() -> list[str]:
    """A reason for each program that is not here."""
    return [reason for name in PROGRAMS if (reason := missing_program(name)) is not None]


def needs(name: str) -> pytest.MarkDecorator:
    """Marks a test, or as `pytestmark` a module."""
    reason = missing_program(name)
    return pytest.mark.skipif(reason is not None, reason=reason or "")


def need(name: str) -> None:
    """For fixtures: leaves out whoever asks for one."""
    if (reason := missing_program(name)) is not None:
        pytest.skip(reason)
