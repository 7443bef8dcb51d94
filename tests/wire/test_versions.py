"""Which revisions can be negotiated, and the era each belongs to."""

import pytest

from toolyard.wire.versions import LEGACY_VERSIONS, MODERN_VERSIONS, era_of, negotiate


def test_every_published_revision_is_spoken():
    assert LEGACY_VERSIONS == ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
    assert MODERN_VERSIONS == ("2026-07-28",)


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_a_handshake_gets_the_legacy_revision_it_asks_for(version: str):
    assert negotiate(version) == version
    assert era_of(version) == "legacy"


@pytest.mark.parametrize("version", ["", "1.0", "2024-10-07", "2025-11-26", "2026-07-28", "2099-01-01"])
def test_a_handshake_that_asks_for_anything_else_gets_the_latest_legacy_revision(version: str):
    assert negotiate(version) == "2025-11-25"


@pytest.mark.parametrize("version", MODERN_VERSIONS)
def test_modern_revisions_belong_to_the_modern_era(version: str):
    assert era_of(version) == "modern"
