"""Indented JSON made shorter: a list or an object that fits on a line stands on one.

The text is not read and written anew, so nothing in it changes but where lines end.
"""


def folded(text: str, width: int) -> str:
    """`text` as msgspec indents it. The outermost brackets stay as they are."""
    done: list[str] = []
    opened: list[int] = []
    for line in text.split("\n"):
        done.append(line)
        # Texts end in a quote, so what ends in a bracket opens something.
        if line.endswith(("{", "[")):
            opened.append(len(done) - 1)
        elif line.lstrip().startswith(("}", "]")):
            _fold(done, opened.pop(), width)
    return "\n".join(done)


def _fold(done: list[str], start: int, width: int) -> None:
    if start == 0 or len(done) - start > width:
        return
    first, *inner, last = done[start:]
    flat = first + " ".join(line.strip() for line in inner) + last.strip()
    if len(flat) <= width:
        done[start:] = [flat]
