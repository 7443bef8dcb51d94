"""The settings of the local_toolkit server."""

from typing import Annotated

from msgspec import Meta, Struct

from ...kit.localization import Locale
from ...workspace import WorkspaceLimits

Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1000)]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of descriptions, messages and errors."""
    workspace: str = ""
    """The folder of the workspaces; empty: `$TOOLYARD_WORKSPACE`, else `workspaces` in the state folder."""
    shared: bool = False
    """Whether all conversations of an owner have the same files."""
    max_bytes: Size = 4 * 1024**3
    """Maximum size of all files of a workspace."""
    max_files: Count = 20_000
    """Maximum number of files and folders of a workspace."""
    max_file_bytes: Size = 1024**3
    """Maximum size of a file that is written."""
    read_bytes: Size = 200_000
    """How much of a file is read at once; the rest is read on from there."""
    image_bytes: Size = 4_000_000
    """Maximum size of a picture that is shown; a larger one is only described."""
    list_limit: Count = 1_000
    """Maximum number of entries of a folder in one list."""

    @property
    def limits(self) -> WorkspaceLimits:
        return WorkspaceLimits(
            max_bytes=self.max_bytes, max_files=self.max_files, max_file_bytes=self.max_file_bytes
        )
