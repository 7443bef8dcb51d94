"""Diagrams of relations: which tables, as Mermaid text, and as a picture."""

from .relations import MAX_TABLES, DiagramTables, mermaid_text, select_tables

__all__ = ["MAX_TABLES", "DiagramTables", "mermaid_text", "select_tables"]
