"""What can be set."""

from ...rest.server import RestSettings


class Settings(RestSettings, frozen=True, kw_only=True):
    table: str = ""
    """The file of the table."""
