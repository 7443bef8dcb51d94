"""The demo server: one example of each feature of the kit.

Needs no network, keys or files; `toolyard serve`, `stdio`, `list` and `call` use it if no other server is
given.
"""

import asyncio
import re
import struct
import zlib
from collections import Counter
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from .._version import __version__
from ..kit import Context, Image, Message, Server, ToolError, assistant, user

server = Server(
    "toolyard",
    version=__version__,
    title="Toolyard demo",
    instructions="A small server to try things with: every tool is harmless and works without a network.",
)


# A plain tool: text in, text out


@server.tool(title="Echo", read_only=True, destructive=False, idempotent=True, open_world=False)
def echo(text: Annotated[str, "What to give back"]) -> str:
    """Give a text back exactly as it came."""
    return text


# Structured results: the return type is the output schema


class Sum(Struct):
    sum: float


@server.tool(title="Add", read_only=True, destructive=False, idempotent=True, open_world=False)
def add(a: Annotated[float, "The first number"], b: Annotated[float, "The second number"]) -> Sum:
    """Add two numbers."""
    return Sum(a + b)


class Moment(Struct):
    time: Annotated[str, Meta(description="ISO 8601, with the offset from UTC")]
    zone: str
    weekday: str
    unix: Annotated[int, Meta(description="Seconds since 1970")]


@server.tool(title="Time of day", read_only=True, destructive=False, idempotent=False, open_world=False)
def now(zone: Annotated[str, "An IANA time zone, such as Europe/Lisbon"] = "UTC") -> Moment:
    """Tell the current date and time in a time zone."""
    moment = datetime.now(_zone(zone))
    return Moment(moment.isoformat(timespec="seconds"), zone, moment.strftime("%A"), int(moment.timestamp()))


def _zone(name: str) -> tzinfo:
    if name == "UTC":  # needs no time zone database, which small containers lack
        return UTC
    from zoneinfo import ZoneInfo  # 2 ms of CPU, only for other zones

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ToolError(f"No time zone {name!r} on this machine; try 'UTC' or 'Europe/Lisbon'") from None


class WordCount(Struct):
    word: str
    count: int


class TextStatistics(Struct):
    characters: int
    words: int
    lines: int
    longest_word: str
    most_common: list[WordCount]


STATISTICS_PAGE = "ui://toolyard/text-statistics"


@server.tool(
    title="Text statistics",
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
    ui=STATISTICS_PAGE,
)
def text_statistics(
    text: Annotated[str, "The text to measure"],
    top: Annotated[int, Meta(ge=1, le=50, description="How many of the most common words to list")] = 5,
) -> TextStatistics:
    """Count a text's characters, words and lines, and its most common words."""
    words = re.findall(r"\w+", text.lower())
    return TextStatistics(
        characters=len(text),
        words=len(words),
        lines=len(text.splitlines()),
        longest_word=max(words, key=len, default=""),
        most_common=[WordCount(word, count) for word, count in Counter(words).most_common(top)],
    )


# Content other than text


@server.tool(title="Colour swatch", read_only=True, destructive=False, idempotent=True, open_world=False)
def swatch(
    colour: Annotated[str, Meta(pattern="^#[0-9a-fA-F]{6}$", description="As in #ff8800")] = "#ff8800",
) -> Image:
    """Draw a small square of one colour."""
    return Image(_png(bytes.fromhex(colour[1:]), side=64), "image/png")


def _png(pixel: bytes, side: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + pixel * side) * side
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


# Progress, and a task for clients that can follow one


@server.tool(
    title="Countdown", read_only=True, destructive=False, idempotent=True, open_world=False, long=True
)
async def countdown(
    ctx: Context,
    steps: Annotated[int, Meta(ge=1, le=60, description="Where to count from")] = 5,
    pause: Annotated[float, Meta(ge=0, le=10, description="Seconds between two steps")] = 1.0,
) -> str:
    """Count down to zero, reporting progress at every step."""
    for done in range(steps):
        await ctx.report_progress(done, steps, f"{steps - done} to go")
        await asyncio.sleep(pause)
    await ctx.report_progress(steps, steps, "zero")
    return f"Counted down from {steps}."


# Asking the user


class Introduction(Struct):
    name: Annotated[str, Meta(min_length=1, max_length=80, title="Your name")]
    manner: Annotated[
        Literal["warm", "formal"], Meta(title="Manner", description="How you like to be greeted")
    ] = "warm"


@server.tool(title="Ask for a name", read_only=True, destructive=False, idempotent=False, open_world=False)
async def ask_name(ctx: Context) -> str:
    """Ask the user for a name with a form, and greet them."""
    answer = await ctx.elicit("What should I call you?", Introduction)
    if not answer.accepted or answer.content is None:
        return "Hello, whoever you are."
    person: Introduction = answer.content
    return (
        f"Good day, {person.name}." if person.manner == "formal" else f"Hello {person.name}, good to see you!"
    )


# Resources: one, and a template whose variable can be completed


@server.resource(
    "demo://about",
    name="about",
    title="About this server",
    description="What the demo offers, in a few lines.",
    mime_type="text/markdown",
)
def about() -> str:
    tools = "\n".join(f"- `{tool.name}`: {tool.info.description}" for tool in server.tools.values())
    return f"# The Toolyard demo\n\nEverything here is harmless and works without a network.\n\n{tools}\n"


class Planet(Struct):
    name: str
    diameter_km: int
    moons: int
    year_days: float


PLANETS = {
    planet.name.lower(): planet
    for planet in (
        Planet("Mercury", 4_879, 0, 88.0),
        Planet("Venus", 12_104, 0, 224.7),
        Planet("Earth", 12_756, 1, 365.2),
        Planet("Mars", 6_792, 2, 687.0),
        Planet("Jupiter", 142_984, 95, 4_331.0),
        Planet("Saturn", 120_536, 274, 10_747.0),
        Planet("Uranus", 51_118, 28, 30_589.0),
        Planet("Neptune", 49_528, 16, 59_800.0),
    )
}


@server.resource(
    "demo://planets/{planet}",
    name="planet",
    title="A planet",
    description="A few figures on a planet of the solar system.",
    mime_type="application/json",
)
def planet(planet: str) -> str:
    found = PLANETS.get(planet.lower())
    if found is None:
        raise ToolError(f"No planet {planet!r}; there are {', '.join(PLANETS)}")
    return msgspec.json.encode(found).decode()


@server.completion(resource="demo://planets/{planet}", argument="planet")
def complete_planet(value: str, context: dict[str, str]) -> list[str]:
    return [name for name in PLANETS if name.startswith(value.lower())]


# A prompt


AUDIENCES = ("a child", "a colleague", "an expert")


@server.prompt(title="Explain something")
def explain(
    topic: Annotated[str, "What to explain"],
    audience: Annotated[str, "Who it is for"] = "a colleague",
) -> list[Message]:
    """Ask for an explanation that fits its audience."""
    return [
        user(f"Explain {topic} to {audience}. Begin with one sentence that says it all."),
        assistant("In one sentence:"),
    ]


@server.completion(prompt="explain", argument="audience")
def complete_audience(value: str, context: dict[str, str]) -> list[str]:
    return [audience for audience in AUDIENCES if value.lower() in audience]


# A page that shows what `text_statistics` found, in clients that have the apps extension


@server.resource(
    STATISTICS_PAGE,
    name="text-statistics-page",
    title="Text statistics, drawn",
    description="Draws the most common words of a text_statistics result as bars.",
)
def statistics_page() -> str:
    return Path(__file__).with_name("demo.html").read_text(encoding="utf-8")
