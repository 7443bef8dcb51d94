"""What people know of a database that it does not know itself: descriptions, rules, hints, relations.

Read from a folder, once, when the server is made. Owns the files' forms and what is said of broken ones; the
database itself is looked at elsewhere.
"""

from .folder import read_folder
from .knowledge import Hint, Knowledge, Link, NotesError, TableNotes

__all__ = ["Hint", "Knowledge", "Link", "NotesError", "TableNotes", "read_folder"]
