"""A caller who no longer waits costs nothing more."""

import asyncio

from tests.emulators.render import RenderEmulator
from tests.servers.render.talking import at
from tests.waiting import until


async def test_a_call_that_is_cancelled_is_cancelled_at_render_too(render: RenderEmulator) -> None:
    render.world.service("shop-web")
    render.fail("/logs", "hang", times=1)
    async with at(render) as talk:
        call = asyncio.create_task(talk.logs())

        async def has_asked() -> bool:
            return bool(render.asked_for("/logs"))

        async def is_idle() -> bool:
            return render.at_once == 0

        await until(has_asked)
        assert not await is_idle()
        call.cancel()
        await until(is_idle)
        assert (await talk.logs()).messages == []
