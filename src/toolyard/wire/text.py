"""Text that can travel."""


def clean(text: str) -> str:
    """Halves of characters, as in file names that are not UTF-8, become `?`; all other text stays."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
