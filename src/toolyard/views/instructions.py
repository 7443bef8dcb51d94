"""What a client is told before anything else: each upstream's own words, and what is missing."""

from ..catalogue.catalogue import Catalogue

MAX_EACH = 2_000
MAX_ALL = 20_000


def instructions(own: str, catalogue: Catalogue) -> str:
    parts = [own] if own else []
    for shelf in catalogue.shelves.values():
        text = shelf.identity.instructions
        if text:
            parts.append(f"## {shelf.server}\n{_cut(text, MAX_EACH)}")
    missing = catalogue.missing()
    if missing:
        lines = [f"- {server}: {brief(reason)}" for server, reason in missing.items()]
        parts.append("## Not available now\n" + "\n".join(lines))
    return _cut("\n\n".join(parts), MAX_ALL)


def brief(reason: str) -> str:
    """Our own words, without what a server wrote before it died: a model reads this."""
    return _cut(reason.partition(": ")[0], 120)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
