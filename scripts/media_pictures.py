"""Makes the pictures of docs/servers/video_audio.md: `python scripts/media_pictures.py`.

They are what the server's own tools return for media that ffmpeg makes: a contact sheet and a waveform.
"""

import asyncio
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from toolyard import Client
from toolyard.ffmpeg import find_ffmpeg
from toolyard.kit import Image
from toolyard.servers.video_audio import Settings, build

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
CLIPS = {
    "sea.mp4": "gradients=s=640x360:r=25:d=3:c0=0x003366:c1=0x3399cc:c2=0x99ddee:c3=0x113355:n=4:seed=7",
    "stars.mp4": "mandelbrot=s=640x360:r=25:start_scale=0.9:end_scale=0.2:end_pts=70",
    "test.mp4": "testsrc2=s=640x360:r=25:d=3",
}
SPEECH = r"aevalsrc=if(between(mod(t\,4)\,1.2\,2.6)\,0\,0.6*sin(700*t)*abs(sin(3*t))*(0.6+0.4*sin(11*t))):d=9"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="toolyard-pictures-") as folder:
        asyncio.run(_draw(Path(folder)))


async def _draw(folder: Path) -> None:
    ffmpeg = find_ffmpeg().ffmpeg
    for name, source in CLIPS.items():
        _made(ffmpeg, folder, source, "-t", "3", "-pix_fmt", "yuv420p", name)
    _made(ffmpeg, folder, SPEECH, "talk.wav")
    server = build(Settings(workspace=str(folder), scratch=str(folder / ".scratch")))
    async with Client(server, timeout=None) as client:
        await _call(
            client,
            "concatenate_videos",
            video_paths=list(CLIPS),
            output_video_path="film.mp4",
            transition_effect="circleopen",
            transition_duration=1.0,
        )
        title = {"text": "Made by an agent", "font_size": 44, "y_pos": "center", "end_time": 2.4, "box": True}
        sheet = await _call(
            client,
            "add_text_overlay",
            video_path="film.mp4",
            output_video_path="titled.mp4",
            text_elements=[title | {"box_border_width": 12}],
        )
        wave = await _call(client, "remove_silence", media_path="talk.wav", output_media_path="short.wav")
    await server.close()
    (IMAGES / "video_audio.jpg").write_bytes(sheet)
    (IMAGES / "video_audio-wave.jpg").write_bytes(wave)


def _made(ffmpeg: str, folder: Path, source: str, *output: str) -> None:
    command = [ffmpeg, "-v", "error", "-y", "-f", "lavfi", "-i", source, *output]
    subprocess.run(command, cwd=folder, check=True)


async def _call(client: Client, tool: str, **arguments: Any) -> bytes:
    result = await client.call_tool(tool, arguments, raise_on_error=True)
    print(result.text)
    return next(block.data for block in result.content if isinstance(block, Image))


if __name__ == "__main__":
    main()
