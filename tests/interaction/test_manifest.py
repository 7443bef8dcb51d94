"""The manifest and the tests say the same, and the sections it cites exist."""

import importlib
from pathlib import Path

from tests.interaction.manifest import BEHAVIOURS

HERE = Path(__file__).parent


def marked() -> dict[str, set[str]]:
    """Every test of this folder with the behaviours it says it shows; this module's own aside."""
    found: dict[str, set[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        module = importlib.import_module(f"tests.interaction.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_"):
                found[f"{path.name}::{name}"] = set(getattr(test, "shows", ()))
    return found


def sections() -> set[str]:
    found: set[str] = set()
    for line in (HERE / "sections.txt").read_text().splitlines():
        if not line.startswith("#"):
            page, _, anchors = line.partition(": ")
            found |= {f"{page}#{anchor}" for anchor in anchors.split()}
    return found


def test_every_test_says_what_it_shows() -> None:
    assert [test for test, names in marked().items() if not names] == []


def test_every_behaviour_names_exactly_the_tests_that_show_it() -> None:
    shown: dict[str, set[str]] = {name: set() for name in BEHAVIOURS}
    for test, names in marked().items():
        for name in names:
            shown[name].add(test)
    assert {name: set(behaviour.tests) for name, behaviour in BEHAVIOURS.items()} == shown


def test_every_behaviour_is_shown_and_has_its_place_in_the_specification() -> None:
    known = sections()
    assert len(known) > 300
    for name, behaviour in BEHAVIOURS.items():
        assert behaviour.tests, f"nothing shows {name!r}"
        assert behaviour.sections, f"{name!r} has no section"
        missing = [section for section in behaviour.sections if section not in known]
        assert not missing, f"{name!r} cites {missing}"


def test_every_page_of_the_features_we_speak_is_cited() -> None:
    cited = {section.partition("#")[0] for item in BEHAVIOURS.values() for section in item.sections}
    assert {section.partition("#")[0] for section in sections()} - cited == set()
