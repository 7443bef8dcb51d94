"""The settings of the workbench."""

from typing import Annotated

from msgspec import Meta, Struct

from ...kit.settings import text_list
from ...languages import Locale
from ...workbench.box import BoxChoice, BoxLimits
from ...workbench.local import LocalLimits
from ...workspace import WorkspaceLimits

Seconds = Annotated[float, Meta(gt=0, le=86400)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1000)]
Memory = Annotated[int, Meta(ge=64 * 1024**2)]


class Settings(Struct, frozen=True, kw_only=True):
    locale: Locale = "en"
    """The language of descriptions, messages and errors."""
    box: BoxChoice = "auto"
    """`auto`: bubblewrap, or else Landlock; the server does not start without either. A name wants that box.
    `limits` protects no files, and runs code of the local user only."""
    python: str = ""
    """The Python that runs code, with the packages that code may import; empty: that of the server."""
    preload: str | tuple[str, ...] = ()
    """Modules that a box imports before it is needed, such as `pandas`; a list, or a text with commas."""
    network: bool = False
    """Whether code may reach the web, by HTTP and HTTPS through a proxy; with bubblewrap only."""
    allow: str | tuple[str, ...] = ()
    """Private hosts and networks that may be reached then: `intra.example:8080`, `10.1.0.0/16`."""
    tools: bool = True
    """Whether code may call the caller's tools by `run_tool`."""
    workspace: str = ""
    """The folder of all workspaces; empty: `$TOOLYARD_WORKSPACE`, else `workspaces` in the state folder."""
    shared: bool = False
    """Whether all conversations of an owner have one folder."""
    timeout: Seconds = 180.0
    """The longest that code may run."""
    memory: Memory = 1024**3
    """Bytes of memory of one session, all its processes together."""
    processes: Annotated[int, Meta(ge=8)] = 64
    """Processes and threads of one session."""
    open_files: Annotated[int, Meta(ge=32)] = 512
    """Files that one process may have open."""
    file_bytes: Size = 512 * 1024**2
    """Bytes of one file that code writes."""
    disk_bytes: Size = 2 * 1024**3
    """Bytes of all files of a conversation."""
    disk_files: Count = 20_000
    """Files and folders of a conversation."""
    temporary_bytes: Size = 256 * 1024**2
    """Bytes in `/tmp`, which is memory."""
    output_bytes: Size = 30_000
    """Bytes of output that are shown of each stream; the rest is in a file."""
    output_file_bytes: Size = 10 * 1024**2
    """Bytes of output of each stream; code that prints more is interrupted."""
    read_bytes: Size = 5 * 1024**2
    """Bytes of a file that can be read at once."""
    idle: Seconds = 600.0
    """Seconds after which an unused session ends."""
    sessions: Count = 8
    """Sessions of all callers together; a new one ends the least recently used."""
    sessions_of_one: Count = 4
    """Sessions of one caller."""
    warm: Annotated[int, Meta(ge=0, le=16)] = 1
    """Boxes that are kept ready for new sessions."""

    @property
    def allowed(self) -> tuple[str, ...]:
        return text_list(self.allow)

    @property
    def box_limits(self) -> BoxLimits:
        return BoxLimits(
            memory=self.memory,
            processes=self.processes,
            open_files=self.open_files,
            file_bytes=self.file_bytes,
            temporary_bytes=self.temporary_bytes,
        )

    @property
    def local_limits(self) -> LocalLimits:
        return LocalLimits(
            seconds=self.timeout,
            memory=self.memory,
            disk_bytes=self.disk_bytes,
            disk_files=self.disk_files,
            output_bytes=self.output_bytes,
            output_file_bytes=self.output_file_bytes,
            idle=self.idle,
            sessions=self.sessions,
            sessions_of_one=self.sessions_of_one,
            warm=self.warm,
        )

    @property
    def workspace_limits(self) -> WorkspaceLimits:
        return WorkspaceLimits(
            max_bytes=self.disk_bytes, max_files=self.disk_files, max_file_bytes=self.file_bytes
        )
