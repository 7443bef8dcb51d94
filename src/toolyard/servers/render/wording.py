"""Messages made fit to be shown: no colours of terminals, no megabytes; and whether one has a text in it."""

import re

from .entries import LONGEST_MESSAGE

LONGEST_NAME = 100

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def shown(message: str) -> str:
    """Without escapes and control characters, and cut where it is very long."""
    cut = message[: 4 * LONGEST_MESSAGE]  # escapes are not counted, but a message of nothing else has an end
    clean = _CONTROLS.sub("", _ESCAPES.sub("", cut)).rstrip()
    more = max(0, len(clean) - LONGEST_MESSAGE) + len(message) - len(cut)
    return f"{clean[:LONGEST_MESSAGE]}… (+{more})" if more else clean


def label(name: str) -> str:
    """The name of a service, which a file or a line in it may have made up: on one line, and short."""
    spelt = name.encode(errors="surrogateescape").decode(errors="replace")  # names of files are bytes
    return " ".join(shown(spelt).split())[:LONGEST_NAME]


def has_text(message: str, wanted: str) -> bool:
    """Upper and lower case are the same; `*` stands for anything. Linear, whatever is asked."""
    where, folded = 0, message.casefold()
    for piece in wanted.casefold().split("*"):
        found = folded.find(piece, where)
        if found < 0:
            return False
        where = found + len(piece)
    return True
