"""Many calls at once: side by side within a limit, answered in order, each for itself.

When the time is over, what is done is given and the rest is cancelled. A call that wants to ask the user
something cannot do so among others; it is ended, and to be made by itself.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ...bridge import Bridge
from ...kit.content import ToolError
from ...wire.call import Call, Caller, Channel, Streamed
from ...wire.eras import CAPABILITIES_KEY, SERVER_KEY, TASKS_EXTENSION
from ...wire.errors import InvalidRequest, McpError
from ...wire.messages import decode_params, encode
from .answers import Done, Item
from .executing import Executing, head_of
from .known import Known
from .supplies import Supplies

logger = logging.getLogger("toolyard.views")

PROGRESS = "notifications/progress"
CANCEL_SECONDS = 5.0
ASKS = "it asks the user something, which it can only do when it is called by itself; call it alone"
LONG = "it answers with a task, which has to be followed; call it alone"
GARBLED = "its result cannot be read: its content is not a list of blocks"
TOO_BIG = "its result is too big to be given among others; call it alone"


class _Quiet:
    """The channel of one of many: progress is told for all of them, and nobody is asked."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.asked = asyncio.Event()

    async def notify(self, method: str, params: Any) -> None:
        if method != PROGRESS:
            await self._channel.notify(method, params)

    async def ask(self, method: str, params: Any) -> Raw:
        if method == "roots/list":  # the client answers that by itself
            return await self._channel.ask(method, params)
        self.asked.set()
        raise InvalidRequest("the user cannot be asked while several tools are called at once")

    async def release(self, retry_ms: int | None) -> None:
        return None


class Batch:
    """One such run."""

    def __init__(self, supplies: Supplies, known: Known, executing: Executing, call: Call, many: int) -> None:
        self._supplies = supplies
        self._known = known
        self._executing = executing
        self._call = call
        self._one = _one_of_many(call)
        self._many = many
        self._finished = 0
        self._begun: set[int] = set()

    async def run(self, items: Sequence[Item], parallel: int, seconds: float) -> list[Done]:
        places = asyncio.Semaphore(parallel)
        tasks = [asyncio.create_task(self._take(at, item, places)) for at, item in enumerate(items)]
        try:
            await asyncio.wait(tasks, timeout=seconds)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            if late:  # the servers are told; nobody waits long for one that does not listen
                await asyncio.wait(late, timeout=CANCEL_SECONDS)
        return [
            self._late(at, item, seconds) if task in late else task.result()
            for at, (item, task) in enumerate(zip(items, tasks, strict=True))
        ]

    async def _take(self, at: int, item: Item, places: asyncio.Semaphore) -> Done:
        async with places:
            self._begun.add(at)
            done = await self._attempt(item)
        self._finished += 1
        if self._call.progress_token is not None:
            told = {
                "progressToken": self._call.progress_token,
                "progress": self._finished,
                "total": self._many,
                "message": f"{item.tool[:80]}: {'done' if done.ok else 'failed'}",
            }
            await self._call.channel.notify(PROGRESS, told)
        return done

    async def _attempt(self, item: Item) -> Done:
        channel = _Quiet(self._one.channel)
        call = replace(self._one, channel=channel)
        working = asyncio.ensure_future(self._executing.call(call, item.tool, item.arguments))
        asking = asyncio.ensure_future(channel.asked.wait())
        try:
            await asyncio.wait({working, asking}, return_when=asyncio.FIRST_COMPLETED)
            if channel.asked.is_set():
                return Done(tool=item.tool, ok=False, error=ASKS)
            return await self._done(call, item.tool, working.result())
        except ToolError as error:
            return Done(tool=item.tool, ok=False, error=str(error))
        except McpError as error:
            return Done(tool=item.tool, ok=False, error=error.message)
        except Exception as error:
            logger.error("a call of %r among others failed in an unforeseen way", item.tool, exc_info=error)
            return Done(tool=item.tool, ok=False, error="it failed in an unforeseen way")
        finally:
            asking.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working}, timeout=CANCEL_SECONDS)
            elif not working.cancelled():
                working.exception()  # it was looked at

    async def _done(self, call: Call, tool: str, result: Any) -> Done:
        if isinstance(result, Streamed):
            result.close()
            return Done(tool=tool, ok=False, error=TOO_BIG)
        kind = head_of(call, result).result_type
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result))
        if kind in ("input_required", "task"):
            await self._abandon(call, tool, plain.get("requestState"))
            return Done(tool=tool, ok=False, error=ASKS if kind == "input_required" else LONG)
        plain.pop("resultType", None)
        meta = plain.get("_meta")
        if isinstance(meta, dict) and set(cast(dict[str, Any], meta)) == {SERVER_KEY}:
            del plain["_meta"]
        if not _is_readable(plain.get("content")):
            return Done(tool=tool, ok=False, error=GARBLED)
        failed = plain.get("isError") is True
        return Done(tool=tool, ok=not failed, result=plain, error=_words(plain) if failed else None)

    async def _abandon(self, call: Call, tool: str, state: Any) -> None:
        """A server that holds its breath for the answer is told that none will come."""
        entry = self._known.entry(call, tool)
        mount = None if entry is None else self._supplies.yard.mounts.get(entry.server)
        if mount is not None and isinstance(mount.service, Bridge) and isinstance(state, str):
            mount.service.abandon(state)

    def _late(self, at: int, item: Item, seconds: float) -> Done:
        what = "it was not done and was cancelled" if at in self._begun else "it was not begun"
        return Done(tool=item.tool, ok=False, error=f"{what}: the {seconds:g} s were over", late=True)


def _one_of_many(call: Call) -> Call:
    """Without what belongs to the whole: the progress token, and tasks, which a client could not follow."""
    members = decode_params(call.params, dict[str, Raw])
    meta = decode_params(members.get("_meta", Raw(b"{}")), dict[str, Raw])
    meta.pop("progressToken", None)
    caller = call.caller
    if caller.era == "modern" and caller.supports(TASKS_EXTENSION):
        capabilities = dict(caller.capabilities)
        extensions = cast(dict[str, Any], capabilities["extensions"])
        capabilities["extensions"] = {key: extensions[key] for key in extensions if key != TASKS_EXTENSION}
        caller = Caller(caller.version, capabilities, caller.client, caller.identity, caller.log_level)
        if CAPABILITIES_KEY in meta:
            meta[CAPABILITIES_KEY] = Raw(encode(capabilities))
    params = Raw(encode({"_meta": meta} if meta else {}))
    return replace(call, params=params, caller=caller, progress_token=None)


def _is_readable(content: Any) -> bool:
    """A stranger's: whoever reads on relies on it, and one that is wrong must not cost the others."""
    if content is None:
        return True
    return isinstance(content, list) and all(isinstance(block, dict) for block in cast(list[Any], content))


def _words(result: dict[str, Any]) -> str:
    texts = [block.get("text") for block in cast(list[dict[str, Any]], result.get("content") or [])]
    return "\n".join(text for text in texts if isinstance(text, str)) or "it failed and does not say why"
