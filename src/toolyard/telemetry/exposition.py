"""Prometheus' text format, version 0.0.4: families of samples to bytes."""

from collections.abc import Iterable

from msgspec import Struct

from ..wire.text import clean

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family(Struct, frozen=True):
    """A metric and its samples: an ending of the name (`_bucket`), labels written by `labelled`, a value."""

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[str, str, float]]


def text(families: Iterable[Family]) -> bytes:
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines.extend(
            f"{family.name}{suffix}{{{labels}}} {value!r}" if labels else f"{family.name}{suffix} {value!r}"
            for suffix, labels, value in family.samples
        )
    lines.append("")
    return "\n".join(lines).encode()


def labelled(**labels: str) -> str:
    """`server="git",method="tools/call"`. Writing it once per series is most of what makes a scrape cheap."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return clean(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
