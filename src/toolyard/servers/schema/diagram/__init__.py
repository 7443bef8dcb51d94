"""Diagrams of relations: which tables, as Mermaid text, and as a picture."""

from .relations import MOST_TABLES, DiagramTables, chosen, mermaid

__all__ = ["MOST_TABLES", "DiagramTables", "chosen", "mermaid"]
