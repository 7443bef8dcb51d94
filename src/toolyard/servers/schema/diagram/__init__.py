"""Relations drawn: which tables, as Mermaid's text, and as a picture."""

from .choosing import MOST, Chosen, chosen
from .mermaid import mermaid

__all__ = ["MOST", "Chosen", "chosen", "mermaid"]
