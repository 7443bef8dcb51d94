"""Packages that only some servers need: their absence is explained, not met somewhere deep inside."""

from importlib.util import find_spec


class MissingExtra(ImportError):
    """`str()` says what to install."""


def need(server: str, extra: str, *packages: str) -> None:
    """Raise MissingExtra when one of these cannot be imported."""
    missing = [name for name in packages if not _is_there(name)]
    if missing:
        names = " and ".join(missing)
        raise MissingExtra(f"the server {server!r} needs {names}: pip install 'toolyard[{extra}]'")


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a.b, when there is no a
        return False
