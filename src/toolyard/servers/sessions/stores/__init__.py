"""Stores conversations in SQLite or PostgreSQL, with the same tables and the same scripts.

`store` is what the rest of the server uses. Scripts (`queries`, `changes`) are written once; an engine
(`sqlite`, `postgres`) runs them.
"""
