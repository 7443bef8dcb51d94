"""What holds for any chain of grants: no narrowing adds a right, a call or a second."""

import asyncio
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolyard import narrow_grant
from toolyard.callers.errors import InvalidTokenError
from toolyard.callers.grant_token import GrantToken
from toolyard.callers.grants import Grants, GrantSpentError
from toolyard.catalogue.items import KINDS
from toolyard.config.callers import AccessConfig, AccessRule, AuthConfig, IssuerConfig
from toolyard.policy.access import AccessPolicy
from toolyard.state import MemoryState
from toolyard.wire.call import Principal
from toolyard.wire.seal import Sealer

START = 1_800_000_000
AUTH = AuthConfig(issuers=(IssuerConfig(issuer="https://id.example"),), grant_ttl=1000)
SEALER = Sealer(b"a key of thirty-two bytes, or so")
PLANNER = Principal(
    agent="planner",
    subject="ana",
    issuer="https://id.example",
    groups=frozenset({"dev"}),
    scopes=frozenset({"read"}),
    kind="jwt",
    expires=START + 900,
)
SERVERS = ("notes", "Notes", "mail")
NAMES = ("read", "write", "write_all", "file:///a/b")
AGENTS = ("planner", "helper", "admin")

globs = st.sampled_from(["*", "read", "w*", "*_all", "*:read", "*:write", "r??d", "READ"])
patterns = st.one_of(
    st.sampled_from(["*", "notes", "m*", "no such pattern/", "prompt:notes/*", "resource:notes/file:///a/*"]),
    st.builds("{}/{}".format, st.sampled_from(["notes", "mail", "*"]), globs),
)
some_patterns = st.lists(patterns, max_size=3)
narrowings = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(AGENTS),
        "allow": some_patterns,
        "deny": some_patterns,
        "expires": st.integers(START - 10, START + 5000),
        "calls": st.integers(1, 8),
        "note": st.sampled_from(["", "why"]),
    },
)
rules = st.builds(
    AccessRule,
    who=st.sampled_from([("*",), ("planner",), ("helper",), ("admin",), ("group:dev",), ("user:ana",)]),
    allow=st.lists(patterns.filter(lambda one: " " not in one), min_size=1, max_size=2, unique=True).map(
        tuple
    ),
    scopes=st.sampled_from([(), ("read",), ("other",)]),
)
configs = st.builds(
    AccessConfig, rules=st.lists(rules, max_size=4).map(tuple), default=st.sampled_from(["allow", "deny"])
)


class Chain:
    """Tokens, each made from the one before, and what the gateway makes of them."""

    def __init__(self) -> None:
        self.grants = Grants(MemoryState(clock=lambda: START), "yard", SEALER, AUTH, now=lambda: START)
        self.tokens: list[str] = []

    async def make(self, first: dict[str, Any], further: list[dict[str, Any]]) -> None:
        limits = {name: value for name, value in first.items() if name != "expires"}
        ttl = max(1, first.get("expires", START + 500) - START)
        issued = await self.grants.make(PLANNER, **{"name": "helper", **limits}, ttl=ttl)
        self.tokens = [issued.token]
        for narrowing in further:
            self.tokens.append(narrow_grant(self.tokens[-1], **narrowing))

    async def principals(self) -> list[Principal]:
        """Those of the tokens that are valid; after one that is not, none may be."""
        found: list[Principal] = []
        for token in self.tokens:
            try:
                principal = await self.grants.verify(token, "/mcp")
            except InvalidTokenError:
                break
            found.append(principal)
        for token in self.tokens[len(found) + 1 :]:
            try:
                await self.grants.verify(token, "/mcp")
            except InvalidTokenError:
                continue
            raise AssertionError("a grant is valid, and one that it was made from is not")
        return found


def seen(policy: AccessPolicy, principal: Principal) -> set[tuple[str, str, str, bool | None]]:
    rights = policy.rights(principal)
    return {
        (kind.name, server, own, reads)
        for kind in KINDS
        for server in SERVERS
        for own in NAMES
        for reads in (True, False, None)
        if rights.sees(kind, server, own, reads)
    }


@given(configs, narrowings, st.lists(narrowings, max_size=4))
def test_no_narrowing_adds_a_right_or_extends_the_end(
    config: AccessConfig, first: dict[str, Any], further: list[dict[str, Any]]
) -> None:
    async def run() -> None:
        chain = Chain()
        await chain.make(first, further)
        policy = AccessPolicy(config)
        before, end = seen(policy, PLANNER), PLANNER.expires
        assert end is not None
        for principal in await chain.principals():
            now = seen(policy, principal)
            assert now <= before
            assert principal.expires is not None
            assert principal.expires <= end
            assert replace(
                principal, agent="", grant=None, kind="jwt", credential="", expires=None
            ) == replace(PLANNER, agent="", expires=None)
            before, end = now, principal.expires

    asyncio.run(run())


@given(narrowings, st.lists(narrowings, max_size=3), st.integers(0, 3))
def test_no_narrowing_adds_a_call(first: dict[str, Any], further: list[dict[str, Any]], at: int) -> None:
    async def run() -> None:
        chain = Chain()
        await chain.make(first, further)
        found = await chain.principals()
        passed = 0
        for principal in [*found[at:], *found]:
            for _ in range(9):
                try:
                    await chain.grants.admit(principal)
                except GrantSpentError:
                    break
                passed += 1
        counts = [one.calls for one in found[0].grant.budgets] if found and found[0].grant else []
        if counts:
            assert passed <= counts[0]
        for above, below in pairwise(found):
            assert above.grant is not None
            assert below.grant is not None
            assert set(above.grant.budgets) <= set(below.grant.budgets)

    asyncio.run(run())


@given(st.lists(narrowings, min_size=1, max_size=4), st.data())
def test_no_selection_of_blocks_is_a_token(further: list[dict[str, Any]], data: st.DataObject) -> None:
    async def run() -> None:
        chain = Chain()
        await chain.make({}, further)
        last = GrantToken.read(chain.tokens[-1])
        blocks = data.draw(st.lists(st.sampled_from(last.blocks), min_size=1, max_size=6).map(tuple))
        signature = data.draw(st.sampled_from([last.signature, bytes(32)]))
        forged = GrantToken(blocks, signature)
        if forged == last:
            return
        try:
            await chain.grants.verify(forged.text, "/mcp")
        except InvalidTokenError:
            return
        raise AssertionError("blocks of a token made another one")

    asyncio.run(run())
