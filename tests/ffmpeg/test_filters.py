"""Filter graphs: a text in them is a text, whatever is in it."""

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.bootstrap import find_program
from tests.programs import needs
from toolyard.ffmpeg.filters import chain, graph_filter, is_expression

SIGNS = st.text("\\':;,[]=% ab{}$\"é", min_size=1, max_size=12).filter(lambda text: text.strip() == text)


@needs("ffmpeg")
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(st.lists(SIGNS, min_size=10, max_size=20))
def test_ffmpeg_reads_every_text_as_it_was_written(texts: list[str]):
    marks = [
        graph_filter("metadata", mode="add", key=f"k{number}", value=text)
        for number, text in enumerate(texts)
    ]
    graph = chain(*marks, graph_filter("metadata", mode="print", file="-"))
    source = ["-f", "lavfi", "-i", "color=s=16x16", "-frames:v", "1", "-vf", graph, "-f", "null", "-"]
    command = [find_program("ffmpeg") or "ffmpeg", "-v", "error", *source]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("k"))
    assert found == {f"k{number}": text for number, text in enumerate(texts)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10", True),
        ("-5", True),
        ("(w-text_w)/2", True),
        ("w*0.5+10", True),
        ("w:textfile=x", False),
        ("if(1,2,3)", False),
        ("rand(1)", False),
        ("w)", False),
        ("'w'", False),
        ("", False),
        ("w" * 101, False),
    ],
)
def test_only_arithmetic_on_known_sizes_is_an_expression(text: str, expected: bool):
    assert is_expression(text, frozenset({"w", "text_w"})) is expected
