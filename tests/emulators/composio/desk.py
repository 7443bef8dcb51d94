"""Where a meta tool is called."""

from dataclasses import dataclass

from .world import Session, World


@dataclass(frozen=True)
class Desk:
    """Whose session, of which world, seen from where."""

    world: World
    session: Session
    url: str
    shape: str = "2026"
    is_empty: bool = False
    lies: bool = False
    """The workbench says that all is well, and keeps something else."""
