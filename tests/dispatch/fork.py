"""A server of the Suna fork's form: a session is begun by a POST, and its id comes in a header."""

from itertools import count
from typing import Any

from tests.app.speaker import Exchange, Speaker, text, tool

HEADER = "x-composio-session-id"


class Fork(Speaker):
    """Executes a call only in a session that lives; says in a chosen way that one does not."""

    def __init__(self, era: str = "modern", manner: str = "401") -> None:
        super().__init__(era, [tool("send")])
        self.manner = manner
        self.live: set[str] = set()
        self.begun: list[str] = []
        self.executed: list[tuple[str, Any]] = []
        """The session's id and the arguments of each call that was done."""
        self.guards_lists = False
        self.gives = True
        self.refuses_to_begin = ""
        self.before = self._look
        self._sessions = count(1)

    async def _look(self, exchange: Exchange) -> bool:
        if exchange.path == "/session":
            await self._begin(exchange)
            return True
        id = exchange.headers.get(HEADER, "")
        guarded = exchange.method == "tools/call" or (exchange.method == "tools/list" and self.guards_lists)
        if guarded and id not in self.live:
            await self._refuse(exchange, id)
            return True
        if exchange.method == "tools/call":
            self.executed.append((id, exchange.arguments))
        return False

    async def _begin(self, exchange: Exchange) -> None:
        assert exchange.message == {"generate_id": True}
        if not self.gives:
            await exchange.plain(500, "no")
            return
        if self.refuses_to_begin:
            await exchange.json({"error": self.refuses_to_begin}, 403)
            return
        id = f"sess-{next(self._sessions)}"
        self.begun.append(id)
        self.live.add(id)
        await exchange.json({"session": {"sessionId": id, "ttlSeconds": 900}}, 201)

    async def _refuse(self, exchange: Exchange, id: str) -> None:
        over = f"Session {id} has expired"
        match self.manner:
            case "401" | "410":
                await exchange.plain(int(self.manner), "go away")
            case "403 in words":
                await exchange.json({"error": {"message": over}}, 403)
            case "400 in words":
                await exchange.json({"error": over}, 400)
            case "a JSON-RPC error":
                await exchange.error(-32000, over)
            case "a JSON-RPC error under 401":
                await exchange.error(-32001, "Unauthorized", 401)
            case "an error result":
                await exchange.result(text(over, isError=True))
            case _:
                raise AssertionError(self.manner)

    def calls_heard(self) -> int:
        return self.calls("send")
