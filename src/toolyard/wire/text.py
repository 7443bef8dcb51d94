"""Text that can be sent: replaces lone surrogates, and marks suspect text."""

SUSPECT_OPEN, SUSPECT_CLOSE = "⟦suspect: ", "⟧"
"""Around words that talk to the model instead of to the reader (`kit/prompt_injection.py`)."""


def clean(text: str) -> str:
    """Halves of characters, as in file names that are not UTF-8, become `?`; all other text stays."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
