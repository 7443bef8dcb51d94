"""The diagram of the README is what its script draws."""

import runpy
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


def test_the_picture_is_the_one_that_the_script_draws():
    drawn: str = runpy.run_path(str(ROOT / "scripts" / "diagram.py"))["drawing"]()
    assert (ROOT / "docs" / "images" / "overview.svg").read_text("utf-8") == drawn
    assert ElementTree.fromstring(drawn).get("role") == "img"
