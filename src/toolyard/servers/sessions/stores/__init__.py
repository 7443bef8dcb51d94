"""Where sessions are kept: SQLite or PostgreSQL, with the same tables and the same statements.

What is done is written once, as scripts (`script.py`, `writing.py`, `matching.py`, `finding.py` and
`bookmarks.py`); an engine (`sqlite.py`, `postgres.py`) carries them out; `dialect.py` has the few statements
that differ. `keeper.py` is what the rest of the server uses.
"""
