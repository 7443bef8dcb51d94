"""What the emulated Composio remembers: sessions, accounts, auth configs, links, files, and what tools did.

Owns no HTTP. One world belongs to one emulator and to one project key.
"""

import asyncio
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from .catalogue import Catalogue, Toolkit
from .refusals import Refusal, expired, not_found
from .sandbox import Sandbox


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fresh(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(6)}"


@dataclass
class Session:
    id: str
    user_id: str
    config: dict[str, Any]
    """As it was asked for; `sessions.py` says it in the words of a reply."""
    api: str
    version: int = 1
    history: list[dict[str, Any]] = field(default_factory=list)
    expired_with: int | None = None
    """The status that every later request of this session gets; 200 is an error inside a good reply."""
    mcp_url: str = ""
    """Where its MCP endpoint is, if it is not the emulator's own."""
    made: str = field(default_factory=now)

    def allows_toolkit(self, slug: str) -> bool:
        limits = self.config.get("toolkits") or {}
        if "enable" in limits:
            return slug in limits["enable"]
        return slug not in limits.get("disable", ())

    def allows_tool(self, slug: str, toolkit: str, tags: list[str]) -> bool:
        limits = (self.config.get("tools") or {}).get(toolkit) or {}
        if "enable" in limits:
            return slug in limits["enable"]
        wanted = limits.get("tags", self.config.get("tags")) or {}
        wanted = {"enable": wanted} if isinstance(wanted, list) else wanted
        if wanted.get("enable") and not set(wanted["enable"]) & set(tags):
            return False
        return slug not in limits.get("disable", ()) and not set(wanted.get("disable", ())) & set(tags)


@dataclass
class AuthConfig:
    id: str
    toolkit: str
    scheme: str
    is_managed: bool
    name: str
    is_enabled: bool = True
    uuid: str = field(default_factory=lambda: str(uuid4()))
    made: str = field(default_factory=now)


@dataclass
class Account:
    """A connected account: one user's access to one toolkit."""

    id: str
    user_id: str
    toolkit: str
    auth_config: AuthConfig
    status: str = "INITIATED"
    alias: str | None = None
    callback_url: str = ""
    link_token: str = ""
    is_disabled: bool = False
    uuid: str = field(default_factory=lambda: str(uuid4()))
    made: str = field(default_factory=now)
    updated: str = field(default_factory=now)

    def become(self, status: str) -> None:
        self.status = status
        self.updated = now()


@dataclass
class Blob:
    """A stored file, or the room kept for one."""

    key: str
    mimetype: str
    content: bytes | None = None
    md5: str = ""
    filename: str = ""
    toolkit: str = ""
    tool: str = ""
    made: str = field(default_factory=now)


@dataclass(frozen=True)
class Grant:
    """What a presigned address allows."""

    key: str
    method: str
    mimetype: str
    is_expired: bool = False


class World:
    def __init__(self, catalogue: Catalogue, knows_files: bool = False) -> None:
        self.catalogue = catalogue
        self.knows_files = knows_files
        """An upload of what is stored already is told so."""
        self.storage = ""
        """Where the presigned addresses point."""
        self.mcp_url = ""
        """Where new sessions have their MCP endpoint, if it is not the emulator's own."""
        self.sessions: dict[str, Session] = {}
        self.accounts: dict[str, Account] = {}
        self.auth_configs: dict[str, AuthConfig] = {}
        self.mcp_servers: dict[str, dict[str, Any]] = {}
        self.blobs: dict[str, Blob] = {}
        self.grants: dict[str, Grant] = {}
        self.sandboxes: dict[tuple[str, str], Sandbox] = {}
        """By user and id: a session's, or one that a sandbox was given."""
        self.stale = 0
        """How many of the next presigned addresses have expired before they are used."""
        self.max_code = 7_000_000
        """Of a cell: five megabytes as base64, and room for the code around it."""
        self.backend = "s3"
        """Or `azure_blob_storage`, which wants a header of its own."""
        self.file_form = "s3url"
        """How CODEINTERPRETER_GET_FILE_CMD gives a file: as `s3url`, `content`, `uri`, or a `local` path."""
        self.records: dict[str, list[dict[str, Any]]] = {}
        """What tools made, by kind: `emails`, `issues`, `messages`, …"""
        self.search_results: list[str] = []
        """The addresses that searches find; without any they invent some."""
        self.executions: list[dict[str, Any]] = []
        self._changed = asyncio.Event()

    def toolkit(self, slug: str) -> Toolkit:
        kit = self.catalogue.toolkits.get(slug.lower())
        if kit is None:
            raise not_found("Toolkit", slug)
        return kit

    def session(self, id: str) -> Session:
        session = self.sessions.get(id)
        if session is None:
            raise not_found("Session", id)
        if session.expired_with is not None and session.expired_with >= 400:
            raise expired(id, session.expired_with)
        return session

    def auth_config(self, id: str) -> AuthConfig:
        if id not in self.auth_configs:
            raise not_found("Auth config", id)
        return self.auth_configs[id]

    def account(self, id: str) -> Account:
        if id not in self.accounts:
            raise not_found("Connected account", id)
        return self.accounts[id]

    def new_auth_config(self, kit: Toolkit, scheme: str, is_managed: bool, name: str = "") -> AuthConfig:
        config = AuthConfig(
            fresh("ac"), kit.slug, scheme, is_managed, name or f"{kit.slug}-{len(self.auth_configs)}"
        )
        self.auth_configs[config.id] = config
        return config

    def default_auth_config(self, kit: Toolkit) -> AuthConfig:
        """The one that a session uses when it was given none."""
        if kit.no_auth:
            raise Refusal(400, f"Toolkit {kit.slug!r} needs no authentication")
        for config in self.auth_configs.values():
            if config.toolkit == kit.slug and config.is_enabled:
                return config
        return self.new_auth_config(kit, kit.schemes[0], bool(kit.managed_schemes))

    def new_account(self, config: AuthConfig, user_id: str, **more: Any) -> Account:
        account = Account(fresh("ca"), user_id, config.toolkit, config, link_token=fresh("lk"), **more)
        self.accounts[account.id] = account
        return account

    def settle(self, account: Account, status: str) -> None:
        """Change an account's status, and wake those who wait for that."""
        account.become(status)
        self._changed.set()
        self._changed = asyncio.Event()

    async def next_change(self) -> None:
        await self._changed.wait()

    def accounts_of(self, user_id: str, toolkit: str, status: str | None = "ACTIVE") -> list[Account]:
        """The newest first."""
        found = [
            account
            for account in self.accounts.values()
            if (account.user_id, account.toolkit) == (user_id, toolkit)
            and status in (None, account.status)
            and not account.is_disabled
        ]
        return found[::-1]

    def address(self, key: str, method: str, mimetype: str = "") -> str:
        """A presigned address for one file and one method."""
        token = secrets.token_hex(16)
        self.grants[token] = Grant(key, method, mimetype, self.stale > 0)
        self.stale = max(0, self.stale - 1)
        return f"{self.storage}/store/{quote(key, safe='')}?X-Amz-Signature={token}"

    def sandbox(self, user_id: str, id: str) -> Sandbox:
        """The sandbox with this id among the user's; made if there is none."""
        if (user_id, id) not in self.sandboxes:
            self.sandboxes[user_id, id] = Sandbox(id, user_id)
        return self.sandboxes[user_id, id]

    def workbench(self, user_id: str, session: str) -> Sandbox:
        """That of a session: another place than the sandboxes of the code interpreter."""
        return self.sandbox(user_id, f"workbench:{session}")

    async def close(self) -> None:
        for sandbox in self.sandboxes.values():
            await sandbox.close()

    def offer(self, name: str, mimetype: str, content: bytes) -> dict[str, str]:
        """A file for the caller to fetch, as a tool's result names it."""
        key = f"proj_emulated/results/{fresh('f')}/{name}"
        self.blobs[key] = Blob(key, mimetype, content, filename=name)
        return {"name": name, "mimetype": mimetype, "s3url": self.address(key, "GET")}

    def keep(self, kind: str, record: dict[str, Any]) -> dict[str, Any]:
        self.records.setdefault(kind, []).append(record)
        return record
