"""The official `openai` package takes the emulated vision model for a real one."""

import asyncio
import base64
import io
from pathlib import Path

from PIL import Image

from tests.emulators.peers import PYTHON
from tests.emulators.vision_chat import KEY, Failing, VisionChat, vision_chat
from tests.waiting import PATIENCE


async def official(api: VisionChat, key: str, data: bytes) -> str:
    program = Path(__file__).with_name("official_vision.py")
    process = await asyncio.create_subprocess_exec(
        *(str(PYTHON), "-P", str(program), api.url, key, "glm-5.3-flash"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={},
    )
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    out, _ = await asyncio.wait_for(process.communicate(url.encode()), PATIENCE)
    return out.decode().strip()


async def test_the_official_package_gets_answers_and_its_own_errors():
    made = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(made, "PNG")
    async with vision_chat() as api:
        assert await official(api, KEY, made.getvalue()) == "I see PNG 40x30. 15"
        assert await official(api, "wrong", made.getvalue()) == "AuthenticationError 401"
    async with vision_chat([Failing(429)]) as api:
        assert await official(api, KEY, made.getvalue()) == "RateLimitError 429"
