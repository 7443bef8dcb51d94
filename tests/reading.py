"""What the SDK's client gives back, read as text."""


def text_of(block: object) -> str:
    """The text of a content block, or of the contents of a resource; a picture or a blob fails the test."""
    text = getattr(block, "text", None)
    assert isinstance(text, str), f"no text: {block!r}"
    return text
