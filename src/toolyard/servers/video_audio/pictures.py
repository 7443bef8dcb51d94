"""What a person would look at: a contact sheet of a video, the waveform of a sound.

The same run of ffmpeg that makes the picture prints what is in the file, so that nothing is read twice.
"""

from ...ffmpeg.filters import chain, graph_filter
from ...ffmpeg.media import MediaStream, ProbedMedia, input_arguments

CELL_WIDTH, CELL_HEIGHT = 320, 240
WAVE_WIDTH, WAVE_HEIGHT = 960, 200
MOST_CELLS = 9
_LAYOUTS = {1: (1, 1), 2: (2, 1), 3: (3, 1), 4: (2, 2), 5: (3, 2), 6: (3, 2)}
_PIXELS_AT_ONCE = 100_000_000
"""A video with more pixels in all is not decoded whole: nine places in it are."""
LONGEST_WAVE = 3600.0
"""Seconds of sound that are decoded for a waveform."""
PICTURE = "picture.jpg"
_JPEG = ("-frames:v", "1", "-c:v", "mjpeg", "-q:v", "4", "-strict", "unofficial", "-f", "image2pipe", PICTURE)


def sheet_arguments(url: str, expected: ProbedMedia, font: str | None) -> list[str]:
    """`expected` is about what the file has, which was written just now. `font` is in the scratch folder."""
    video, length = expected.video, expected.duration or 0.0
    assert video is not None
    rate = video.frame_rate or 25.0
    cells = max(1, min(MOST_CELLS, round(length * rate)))
    columns, rows = _LAYOUTS.get(cells, (3, 3))
    tile = graph_filter("tile", f"{columns}x{rows}", padding=4, margin=4, color="0x202020")
    if length * rate * video.width * video.height <= _PIXELS_AT_ONCE or length < 1:
        # Not `fps`, which would show a frame from up to half the interval later.
        often = max(0.0, length / cells - 0.5 / rate)
        pick = chain(
            "setpts=PTS-STARTPTS",
            graph_filter("select", f"isnan(prev_selected_t)+gte(t-prev_selected_t,{often:.4f})"),
        )
        graph = f"[0:v:0]{chain(pick, *_cell(video, font), tile, *_END)}[picture]"
        return [
            "-loglevel",
            "info",
            *input_arguments(url),
            "-filter_complex",
            graph,
            "-map",
            "[picture]",
            *_JPEG,
        ]
    places = [(number + 0.5) * length / cells for number in range(cells)]
    inputs = [
        word
        for place in places
        for word in ("-noaccurate_seek", "-ss", f"{place:.3f}", "-threads", "1", *input_arguments(url))
    ]
    parts = [
        f"[{number}:v:0]{chain('trim=end_frame=1', *_cell(video, font), 'setpts=0')}[c{number}]"
        for number in range(cells)
    ]
    joined = "".join(f"[c{number}]" for number in range(cells)) + f"concat=n={cells}:v=1:a=0"
    graph = ";".join([*parts, chain(joined, tile, *_END) + "[picture]"])
    return ["-loglevel", "info", "-copyts", *inputs, "-filter_complex", graph, "-map", "[picture]", *_JPEG]


_END = ("scale=out_range=pc", "format=yuv420p")


def _cell(video: MediaStream, font: str | None) -> list[str]:
    ratio = video.width * video.sample_aspect / video.height if video.height else 1.0
    width = min(CELL_WIDTH, round(CELL_HEIGHT * ratio), max(CELL_WIDTH // 2, video.width))
    height = round(width / ratio)
    filters = [graph_filter("scale", max(2, width), max(2, height)), "setsar=1"]
    if font is not None:
        place = {"x": 6, "y": "h-th-6", "fontsize": 14, "fontcolor": "white"}
        box = {"box": 1, "boxcolor": "black@0.6", "boxborderw": 4}
        filters.append(
            graph_filter("drawtext", fontfile=font, text="%{pts:hms}", **place, **box)  # pyright: ignore
        )
    return filters


def waveform_arguments(url: str) -> list[str]:
    wave = graph_filter("showwavespic", s=f"{WAVE_WIDTH}x{WAVE_HEIGHT}", colors="0x66aaff")
    graph = f"[0:a:0]{chain('aformat=channel_layouts=mono', wave, *_END)}[picture]"
    limited = ["-t", f"{LONGEST_WAVE:g}", *input_arguments(url)]
    return ["-loglevel", "info", *limited, "-filter_complex", graph, "-map", "[picture]", *_JPEG]
