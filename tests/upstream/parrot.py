"""Servers that repeat whatever they were sent, in every form and in everything that they can say."""

import base64
import json
import re
from urllib.parse import quote, unquote_to_bytes

from tests.app.speaker import Exchange, Json, Speaker, text, tool

BIG = 2**20 + 2**16
HARMLESS = {"accept", "accept-encoding", "content-length", "content-type", "host", "user-agent"}
TOOLS = ("says", "fails", "refuses", "breaks", "reports", "asks", "shouts", "shows")


def forms(said: str) -> str:
    """The texts in which somebody could repeat another."""
    data = said.encode()
    found = [said, json.dumps(said), json.dumps(json.dumps(said)), quote(said), quote(said, safe="")]
    found += [
        re.sub("%..", lambda code: code[0].lower(), quote(said, safe="")),
        data.hex(),
        data.hex().upper(),
    ]
    for before in (b"", b"a", b"ab"):
        found += [base64.b64encode(before + data).decode(), base64.urlsafe_b64encode(before + data).decode()]
    return " | ".join(found)


def leaks(data: bytes, secret: str) -> bool:
    """Whether a text holds a secret, for whoever decodes what can be decoded."""
    wanted = secret.encode()
    seen = {data, unquote_to_bytes(data)}
    for _ in range(3):  # JSON in JSON in JSON
        seen |= {_ESCAPE.sub(lambda code: bytes.fromhex(code[1].decode()), one) for one in seen}
        seen |= {re.sub(rb'\\(["\\/])', rb"\1", one) for one in seen}
    return any(
        wanted in one or wanted.hex().encode() in one.lower() or _in_base64(one, wanted) for one in seen
    )


_ESCAPE = re.compile(rb"\\u00([2-7][0-9a-fA-F])")
_RUN = re.compile(rb"[A-Za-z0-9+/_-]{8,}")


def _in_base64(data: bytes, wanted: bytes) -> bool:
    for run in _RUN.findall(data.translate(bytes.maketrans(b"-_", b"+/"))):
        for start in range(4):
            size = (len(run) - start) // 4 * 4
            if wanted in base64.b64decode(run[start : start + size]):
                return True
    return False


class Parrot(Speaker):
    """Over HTTP. It repeats what it was sent before, too."""

    def __init__(self, era: str = "modern") -> None:
        super().__init__(era)
        self.capabilities = {"tools": {}, "prompts": {}, "resources": {}, "logging": {}}
        self.sent: dict[str, None] = {}
        self.before = self._listen_to
        self.on |= {
            "tools/call": self._called,
            "tools/list": self._lists,
            "prompts/list": self._prompts,
            "resources/list": self._resources,
            "resources/read": self._read,
            "prompts/get": self._prompt,
        }

    @property
    def said(self) -> str:
        return "PARROT " + forms(" ".join(self.sent))

    async def _listen_to(self, exchange: Exchange) -> bool:
        sent = {name: value for name, value in exchange.headers.items() if name not in HARMLESS}
        self.sent |= dict.fromkeys(value for name, value in sent.items() if not name.startswith("mcp-"))
        self.instructions = self.said
        return False

    async def _lists(self, exchange: Exchange) -> None:
        said = self.said
        schema = {
            "type": "object",
            "properties": {"x": {"type": "string", "description": said, "default": said}},
        }
        more: Json = {"description": said, "title": said, "_meta": {"said": said}, "inputSchema": schema}
        await exchange.result({"tools": [tool(name) | more for name in TOOLS]})

    async def _prompts(self, exchange: Exchange) -> None:
        await exchange.result({"prompts": [{"name": "p", "description": self.said}]})

    async def _resources(self, exchange: Exchange) -> None:
        said = self.said
        await exchange.result({"resources": [{"uri": "parrot://r", "name": "r", "description": said}]})

    async def _read(self, exchange: Exchange) -> None:
        blob = base64.b64encode(self.said.encode()).decode()
        contents = [{"uri": "parrot://r", "text": self.said}, {"uri": "parrot://r", "blob": blob}]
        await exchange.result({"contents": contents})

    async def _prompt(self, exchange: Exchange) -> None:
        content = {"type": "text", "text": self.said}
        await exchange.result({"messages": [{"role": "user", "content": content}]})

    async def _called(self, exchange: Exchange) -> None:
        said = self.said
        match exchange.name:
            case "says":
                await exchange.result(text(said, structuredContent={"said": [said], said[:300]: 1}))
            case "fails":
                await exchange.result(text(said, isError=True))
            case "refuses":
                await exchange.error(-32000, said, data={"said": said})
            case "breaks":
                await exchange.plain(500, said)
            case "shows":
                image = base64.b64encode(b"\x89PNG" + said.encode() + bytes(range(256))).decode()
                await exchange.result(
                    {"content": [{"type": "image", "mimeType": "image/png", "data": image}]}
                )
            case "shouts":
                await exchange.result(text("x" * (BIG - 17) + said + "y" * 1000 + said))
            case "reports":
                await exchange.stream()
                await exchange.progress(1, said)
                await exchange.notify("notifications/message", {"level": "error", "data": {"said": said}})
                await exchange.event(exchange.reply(text(said)))
                await exchange.end()
            case _:
                await self._asks(exchange, said)

    async def _asks(self, exchange: Exchange, said: str) -> None:
        question = {"message": said, "requestedSchema": {"type": "object", "properties": {}}}
        if exchange.is_modern:
            asked = {"q": {"method": "elicitation/create", "params": question}}
            state = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
            await exchange.result(state)
            return
        await exchange.stream()
        await self.ask(exchange, "elicitation/create", question)
