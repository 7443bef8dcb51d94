"""What the model is asked and shown by each tool, and what comes back from the API or the client's model."""

import base64
import io
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from PIL import Image

from tests.emulators.vision_chat import Finished, vision_chat
from tests.servers.youtube.site import Site
from tests.servers.zai_vision.talking import ERAS, data_url, picture, talking
from toolyard import Client
from toolyard.kit.loader import load

TOOLS: list[tuple[str, dict[str, Any], str, str]] = [
    ("ui_to_artifact", {"output_type": "code"}, "rebuilds it", ""),
    ("ui_to_artifact", {"output_type": "prompt"}, "Return the prompt only", ""),
    ("ui_to_artifact", {"output_type": "spec"}, "design tokens", ""),
    ("ui_to_artifact", {"output_type": "description"}, "cannot see it", ""),
    ("extract_text_from_screenshot", {"programming_language": "Rust"}, "Copy the text", "language is Rust"),
    ("diagnose_error_screenshot", {"context": "after an update"}, "shows an error", "after an update"),
    ("understand_technical_diagram", {"diagram_type": "uml"}, "technical diagram", "this kind: uml"),
    (
        "analyze_data_visualization",
        {"analysis_focus": "trends"},
        "chart or a dashboard",
        "above all at: trends",
    ),
    ("analyze_image", {}, "whole picture", ""),
]


@pytest.mark.parametrize(("tool", "arguments", "system", "text"), TOOLS)
async def test_each_tool_tells_the_model_what_kind_of_picture_it_sees(
    tool: str, arguments: dict[str, str], system: str, text: str, tmp_path: Path
):
    (tmp_path / "shot.png").write_bytes(picture())
    async with vision_chat(["It is red."]) as api, talking(tmp_path, api) as talk:
        found = await talk(tool, image_source="shot.png", prompt="What is it?", **arguments)
    assert (found["text"], found["model"], found["answered_by"]) == ("It is red.", "glm-5.3-flash", "api")
    assert found["images"] == [
        {"source": "shot.png", "mime_type": "image/png", "size": len(picture()), "width": 60, "height": 40}
    ]
    assert found["tokens"] == 15
    assert system in api.system
    assert "never an instruction" in api.system
    assert text in api.text
    assert api.text.endswith("Request: What is it?")
    assert [(one.kind, one.corner) for one in api.pictures[0]] == [("PNG", (255, 0, 0))]
    numbers = [progress for progress, _, _ in talk.progress]
    assert numbers == sorted(set(numbers))
    assert talk.progress[-1][2] == "asking glm-5.3-flash"


async def test_two_interfaces_are_shown_in_their_order(tmp_path: Path):
    async with vision_chat() as api, talking(tmp_path, api) as talk:
        await talk(
            "ui_diff_check",
            expected_image_source=data_url(picture(colour="lime")),
            actual_image_source=data_url(picture(colour="blue")),
            prompt="Compare",
        )
    assert [one.corner for one in api.pictures[0]] == [(0, 255, 0), (0, 0, 255)]


async def test_z_ai_gets_its_own_parameters_and_headers_and_others_only_what_was_set(tmp_path: Path):
    from toolyard.servers.zai_vision.settings import Settings, endpoint_of

    zai = endpoint_of(Settings(), {"Z_AI_API_KEY": "k", "Z_AI_TIMEOUT": "5000", "Z_AI_RETRY_COUNT": "3"})
    assert zai is not None
    assert zai.url == "https://api.z.ai/api/paas/v4/chat/completions"
    assert zai.parameters == {
        "thinking": {"type": "enabled"},
        "temperature": 0.8,
        "top_p": 0.6,
        "max_tokens": 131072,
    }
    assert zai.headers == {"X-Title": "4.5V MCP Local", "Accept-Language": "en-US,en"}
    assert (zai.model, zai.timeout, zai.retries) == ("glm-5.3-flash", 5.0, 3)
    assert "'k'" not in repr(zai)
    zhipu = endpoint_of(
        Settings(), {"ZAI_API_KEY": "k", "Z_AI_MODE": "ZHIPU", "Z_AI_VISION_MODEL": "glm-4.6v"}
    )
    assert zhipu is not None
    assert (zhipu.host, zhipu.model) == ("open.bigmodel.cn", "glm-4.6v")
    async with vision_chat() as api, talking(tmp_path, api, temperature=0.2) as talk:
        await talk("analyze_image", image_source=data_url(picture()), prompt="?")
    assert set(api.bodies[0]) == {"model", "messages", "stream", "temperature"}
    assert "X-Title" not in api.headers[0]


async def test_a_token_of_anthropic_is_not_sent_to_z_ai(tmp_path: Path):
    from toolyard.servers.zai_vision.settings import Settings, endpoint_of

    assert endpoint_of(Settings(), {"ANTHROPIC_AUTH_TOKEN": "sk-ant"}) is None
    there = {"ANTHROPIC_AUTH_TOKEN": "k", "ANTHROPIC_BASE_URL": "https://api.z.ai/api/anthropic"}
    found = endpoint_of(Settings(), there)
    assert found is not None
    assert found.key == "k"


async def test_a_large_picture_is_scaled_down_and_said_so(tmp_path: Path):
    noise = Image.effect_noise((3000, 2000), 100)
    into = io.BytesIO()
    noise.save(into, "PNG")
    (tmp_path / "big.png").write_bytes(into.getvalue())
    async with vision_chat() as api, talking(tmp_path, api, image_bytes=300_000) as talk:
        found = await talk("analyze_image", image_source="big.png", prompt="?")
    seen = api.pictures[0][0]
    assert seen.bytes <= 300_000
    assert found["notices"][0].startswith("big.png was scaled down from 3000x2000 to ")


async def test_another_format_is_converted_and_said_so(tmp_path: Path):
    (tmp_path / "shot.webp").write_bytes(picture(kind="WEBP"))
    async with vision_chat() as api, talking(tmp_path, api) as talk:
        found = await talk("analyze_image", image_source="shot.webp", prompt="?")
    assert found["notices"] == ["shot.webp was converted from WEBP"]
    assert api.pictures[0][0].kind == "PNG"


async def test_an_image_is_fetched_from_an_address_or_left_to_the_api(tmp_path: Path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "red.png").write_bytes(picture())
    async with vision_chat() as api, Site(tmp_path / "m").open() as site:
        address = site.url("/red.png")
        async with talking(tmp_path, api, allow=f"127.0.0.1:{site.port}") as talk:
            await talk("analyze_image", image_source=address, prompt="?")
            assert (api.pictures[-1][0].kind, site.hits) == ("PNG", ["/red.png"])
        async with talking(tmp_path, api, urls="pass") as talk:
            await talk("analyze_image", image_source=address, prompt="?")
            assert (api.pictures[-1][0].url, site.hits) == (address, ["/red.png"])


async def test_a_small_video_is_sent_whole_and_a_large_one_as_pictures_with_times(
    video: bytes, tmp_path: Path
):
    (tmp_path / "clip.mp4").write_bytes(video)
    async with vision_chat() as api:
        async with talking(tmp_path, api) as talk:
            found = await talk("analyze_video", video_source="clip.mp4", prompt="What happens?")
            assert [one.kind for one in api.pictures[-1]] == ["video"]
            assert found["notices"] == []
        async with talking(tmp_path, api, video_bytes=1024, frames=4) as talk:
            found = await talk("analyze_video", video_source="clip.mp4", prompt="What happens?")
    assert [one.kind for one in api.pictures[-1]] == ["JPEG"] * 4
    first, *_, last = [one.corner for one in api.pictures[-1]]
    assert first[0] > 200 > first[2]
    assert last[2] > 200 > last[0]
    assert "at these times: 0.5 s, 1.5 s, 2.5 s, 3.5 s" in api.text
    assert [image["seconds"] for image in found["images"]] == [0.5, 1.5, 2.5, 3.5]
    assert found["notices"] == ["the model was shown 4 pictures of the video, not the video itself"]


async def test_an_answer_that_was_cut_off_says_so(tmp_path: Path):
    async with vision_chat([Finished("It is a", "length")]) as api, talking(tmp_path, api) as talk:
        found = await talk("analyze_image", image_source=data_url(picture()), prompt="?")
    assert found["truncated"] is True
    assert found["notices"] == ["the answer was cut off at the limit of tokens"]


async def test_the_portuguese_server_asks_and_answers_in_portuguese(tmp_path: Path):
    async with vision_chat() as api, talking(tmp_path, api, locale="pt") as talk:
        await talk("analisar_imagem", imagem=data_url(picture()), pedido="O que é?")
        assert api.text == "Pedido: O que é?"
        assert "Olhe a imagem inteira" in api.system
        refusal = await talk.refusal("analyze_image", image_source="nada.png", prompt="?")
        assert "área de trabalho" in refusal


# The client's own model.


class ClientModel:
    def __init__(self) -> None:
        self.asked: list[types.CreateMessageRequestParams] = []

    async def __call__(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self.asked.append(params)
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text="The client sees red."),
            model="client-model",
            stop_reason="endTurn",
        )


def blocks(params: types.CreateMessageRequestParams) -> list[Any]:
    return [message.content for message in params.messages]


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_key_the_clients_own_model_is_asked(era: str, tmp_path: Path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "red.png").write_bytes(picture(3000, 2000))
    model = ClientModel()
    async with Site(tmp_path / "m").open() as site:
        allowed = f"127.0.0.1:{site.port}"
        async with talking(tmp_path, era=era, on_sample=model, allow=allowed) as talk:
            found = await talk("analyze_image", image_source=site.url("/red.png"), prompt="What is it?")
        assert site.hits == ["/red.png"], "fetched once, also if the call comes twice"
    assert (found["text"], found["model"], found["answered_by"]) == (
        "The client sees red.",
        "client-model",
        "client",
    )
    assert (found["images"][0]["width"], found["images"][0]["height"]) == (1568, 1045)
    image, text = blocks(model.asked[0])
    with Image.open(io.BytesIO(base64.b64decode(image.data))) as shown:
        assert shown.size == (1568, 1045)
    assert text.text == "Request: What is it?"
    assert "whole picture" in (model.asked[0].system_prompt or "")


@pytest.mark.parametrize("era", ERAS)
async def test_the_clients_model_is_shown_a_video_as_pictures(era: str, video: bytes, tmp_path: Path):
    (tmp_path / "clip.mp4").write_bytes(video)
    model = ClientModel()
    async with talking(tmp_path, era=era, on_sample=model, frames=2) as talk:
        found = await talk("analyze_video", video_source="clip.mp4", prompt="What happens?")
    assert [block.type for block in blocks(model.asked[0])] == ["image", "image", "text"]
    assert [image["seconds"] for image in found["images"]] == [1.0, 3.0]
    assert "at these times: 1 s, 3 s" in blocks(model.asked[0])[-1].text


@pytest.mark.parametrize("era", ERAS)
async def test_without_a_key_and_without_sampling_the_error_says_what_to_set(era: str, tmp_path: Path):
    async with talking(tmp_path, era=era) as talk:
        refusal = await talk.refusal("analyze_image", image_source=data_url(picture()), prompt="?")
    assert "Z_AI_API_KEY" in refusal
    assert "sampling" in refusal


async def test_it_also_works_as_a_task(tmp_path: Path):
    async with vision_chat() as api:
        options = {"url": api.url, "api_key": api.key, "model": "m", "workspace": str(tmp_path)}
        server = load("toolyard.servers.zai_vision", options=options)
        try:
            async with Client(server) as client:
                arguments = {"image_source": data_url(picture()), "prompt": "?"}
                task = await client.start_task("analyze_image", arguments)
                assert (await task.result()).structured["text"] == "I see PNG 60x40."
        finally:
            await server.close()
