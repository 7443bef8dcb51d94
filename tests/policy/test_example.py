"""examples/access.toml means what its matrix says: a main agent and a sub-agent, by eight kinds of tools."""

from pathlib import Path

import pytest

from toolyard.catalogue.items import TOOLS
from toolyard.config import load
from toolyard.policy.access import AccessPolicy
from toolyard.policy.review import unmatched_patterns
from toolyard.wire.call import Principal

EXAMPLE = Path(__file__).parents[2] / "examples" / "access.toml"
MAIN, EXPERT = Principal(agent="main"), Principal(agent="report-creation-expert")


@pytest.fixture(scope="module")
def policy() -> AccessPolicy:
    return AccessPolicy(load(EXAMPLE).access)


@pytest.mark.parametrize(
    ("server", "tool", "reads", "main", "expert"),
    [
        ("local_toolkit", "save_corpus", None, False, True),
        ("local_toolkit", "write_local_file", None, True, True),
        ("local_toolkit", "workbench_download", None, True, True),
        ("local_toolkit", "workbench_upload", None, True, True),
        ("local_toolkit", "crawl_parallel", None, True, True),
        ("local_toolkit", "upload_to_composio", None, True, True),
        ("composio", "COMPOSIO_SEARCH_NEWS", True, True, True),
        ("composio", "COMPOSIO_SEARCH_WEB", True, True, True),
        ("composio", "COMPOSIO_SEARCH_AND_SAVE", False, True, False),
        ("composio", "COMPOSIO_SEARCH_UNKNOWN", None, True, False),
        ("composio", "GMAIL_SEND_EMAIL", None, True, False),
        ("composio", "COMPOSIO_REMOTE_WORKBENCH", None, True, False),
        ("another", "tool", True, False, False),
    ],
)
def test_the_matrix(
    policy: AccessPolicy, server: str, tool: str, reads: bool | None, main: bool, expert: bool
) -> None:
    found = [
        policy.rights(one).decide(TOOLS, server, tool, reads).verb for one in (MAIN, EXPERT, Principal())
    ]

    assert found == ["allow" if main else "deny", "allow" if expert else "deny", "deny"]


def test_its_servers_are_known_by_their_names(policy: AccessPolicy) -> None:
    servers = [server.name for server in load(EXAMPLE).servers]

    assert unmatched_patterns(policy, servers, {}, unread=servers) == []
