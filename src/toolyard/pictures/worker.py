"""Runs in a worker process: decodes one picture with Pillow, and encodes it so that it fits."""

import io
import struct
import warnings
import zlib
from typing import Any

import msgspec
from PIL import Image, ImageOps

from ..workers.process import limit_memory, restrict_process, serve
from .fitting import FittedPicture, PictureAnswer, PictureJob, PictureLimits, PictureRefusal

MEMORY = 1536 * 1024**2
FORMATS = (
    "JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "ICO", "PPM", "JPEG2000", "TGA",
)  # fmt: skip
"""None that runs another program or loads another file."""
QUALITIES = (90, 80, 70)
ORIENTATION = 0x0112
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, struct.error, zlib.error, EOFError,
           OverflowError, ZeroDivisionError, Image.DecompressionBombError)  # fmt: skip


class RefusedError(Exception):
    def __init__(self, refusal: PictureRefusal) -> None:
        self.refusal = refusal


def fit(data: bytes, limits: PictureLimits) -> FittedPicture:
    image = _opened(data)
    width, height = image.size
    frames = int(getattr(image, "n_frames", 1) or 1)
    kind = str(image.format)
    if kind in ("JPEG", "MPO"):
        image.draft("RGB", (limits.max_side, limits.max_side))  # decodes a huge one smaller
    if image.size[0] * image.size[1] > limits.max_pixels:
        raise RefusedError(PictureRefusal("too_many_pixels", width, height))
    try:
        image.load()
        turned = int(image.getexif().get(ORIENTATION, 1)) not in (0, 1)
        fits = (
            len(data) <= limits.max_bytes
            and max(image.size) <= limits.max_side
            and not turned
            and (width, height) == image.size
        )
        if fits and kind in ("JPEG", "PNG") and frames == 1 and image.mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
            found, mime_type, size = data, f"image/{kind.lower()}", image.size
        else:
            upright: Any = ImageOps.exif_transpose(image) if turned else image
            if turned:
                width, height = (upright.size[1] and _swapped(width, height, image, upright))
            found, mime_type, size = _encoded(upright, kind, limits)
    except _BROKEN:
        raise RefusedError(PictureRefusal("corrupt", width, height)) from None
    return FittedPicture(
        data=found,
        mime_type=mime_type,
        width=size[0],
        height=size[1],
        original_width=width,
        original_height=height,
        format=kind,
        frames=frames,
    )


def _swapped(width: int, height: int, before: Any, after: Any) -> tuple[int, int]:
    """The original's size as it is looked at."""
    return (height, width) if before.size == after.size[::-1] and before.size != after.size else (width, height)


def _opened(data: bytes) -> Any:
    try:
        return Image.open(io.BytesIO(data), formats=[name for name in FORMATS if name in _known()])
    except _BROKEN:
        start = data[:1024].lstrip().lower()
        is_svg = start.startswith((b"<svg", b"<?xml")) and b"<svg" in data[:4096].lower()
        raise RefusedError(PictureRefusal("svg" if is_svg else "not_an_image")) from None


def _known() -> set[str]:
    Image.init()
    return set(Image.OPEN)


def _encoded(image: Any, kind: str, limits: PictureLimits) -> tuple[bytes, str, tuple[int, int]]:
    """PNG for what was sharp, if it fits; else JPEG, smaller and smaller."""
    plain = _in_plain_mode(image)
    plain.thumbnail((limits.max_side, limits.max_side), Image.Resampling.LANCZOS, reducing_gap=3.0)
    if kind not in ("JPEG", "MPO"):
        data = _saved(plain, "PNG", optimize=False)
        if len(data) <= limits.max_bytes:
            return data, "image/png", plain.size
    plain = _flat(plain)
    while True:
        for quality in QUALITIES:
            data = _saved(plain, "JPEG", quality=quality)
            if len(data) <= limits.max_bytes:
                return data, "image/jpeg", plain.size
        if max(plain.size) <= 16:
            raise RefusedError(PictureRefusal("too_large"))
        plain.thumbnail((max(1, plain.size[0] * 3 // 4), max(1, plain.size[1] * 3 // 4)))


def _in_plain_mode(image: Any) -> Any:
    if image.mode in ("RGB", "RGBA", "L"):
        return image.copy()
    if image.mode.startswith("I"):  # 16 bits a pixel, which a plain conversion would cut off
        return image.point(lambda value: value / 256).convert("L") if image.mode != "I" else _scaled_gray(image)
    has_alpha = image.mode in ("LA", "PA", "La", "RGBa") or "transparency" in image.info
    return image.convert("RGBA" if has_alpha else "RGB")


def _scaled_gray(image: Any) -> Any:
    low, high = image.getextrema()
    if high <= 255:
        return image.convert("L")
    span = max(1, high - low)
    return image.point(lambda value: (value - low) * (255 / span)).convert("L")


def _flat(image: Any) -> Any:
    """On white, because JPEG has no transparency."""
    if image.mode != "RGBA":
        return image if image.mode in ("RGB", "L") else image.convert("RGB")
    ground = Image.new("RGB", image.size, "white")
    ground.paste(image, mask=image.getchannel("A"))
    return ground


def _saved(image: Any, kind: str, **options: Any) -> bytes:
    into = io.BytesIO()
    image.save(into, kind, **options)
    return into.getvalue()


def answer(request: bytes) -> bytes:
    job = msgspec.msgpack.decode(request, type=PictureJob)
    try:
        found: PictureAnswer | PictureRefusal = PictureAnswer(fit(job.data, job.limits))
    except RefusedError as error:
        found = error.refusal
    except MemoryError:
        found = PictureRefusal("too_large")
    return msgspec.msgpack.encode(found)


def main() -> None:
    restrict_process()
    limit_memory(MEMORY)
    warnings.simplefilter("ignore")  # Pillow warns of large pictures; we count pixels ourselves
    Image.MAX_IMAGE_PIXELS = None
    serve(answer)


if __name__ == "__main__":
    main()
