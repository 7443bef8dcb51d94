"""Protocol revisions, and the era each belongs to.

Legacy revisions open with an `initialize` handshake and hold a session. Modern ones carry version,
client and capabilities in every request and hold nothing.
"""

from typing import Literal

Era = Literal["legacy", "modern"]

LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
LATEST_LEGACY = LEGACY_VERSIONS[-1]
ASSUMED_VERSION = "2025-03-26"
"""What a legacy request over HTTP speaks that does not say so."""
LATEST_MODERN = MODERN_VERSIONS[-1]


def negotiate(requested: str) -> str:
    """The legacy revision to answer an `initialize` with: the one asked for, or our latest."""
    return requested if requested in LEGACY_VERSIONS else LATEST_LEGACY


def era_of(version: str) -> Era:
    return "modern" if version in MODERN_VERSIONS else "legacy"
