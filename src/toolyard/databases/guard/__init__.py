"""Checks that a statement only reads, and only what it may read, before it is run."""
