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
QUALITIES = (90, 75)
PNG_RATIO = 10
"""How much smaller than its pixels a PNG may have to be; more is not worth the try."""
ORIENTATION = 0x0112
"""In EXIF."""
LYING = (5, 6, 7, 8)
PLAIN_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, struct.error, zlib.error,
EOFError,            OverflowError, ZeroDivisionError, Image.DecompressionBombError)  # fmt: skip


class UnfitPictureError(Exception):
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
        raise UnfitPictureError(PictureRefusal("too_many_pixels", width, height))
    try:
        image.load()
        orientation = int(image.getexif().get(ORIENTATION, 1))
        is_plain = kind in ("JPEG", "PNG") and frames == 1 and image.mode in PLAIN_MODES
        is_small = len(data) <= limits.max_bytes and max(width, height) <= limits.max_side
        if is_plain and is_small and orientation in (0, 1):
            found, mime_type, size = data, f"image/{kind.lower()}", image.size
        else:
            if orientation in LYING:
                width, height = height, width
            found, mime_type, size = _encoded(ImageOps.exif_transpose(image), kind, limits)
    except _BROKEN:
        raise UnfitPictureError(PictureRefusal("corrupt", width, height)) from None
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


def _opened(data: bytes) -> Any:
    try:
        return Image.open(io.BytesIO(data), formats=[name for name in FORMATS if name in _known()])
    except _BROKEN:
        start = data[:1024].lstrip().lower()
        is_svg = start.startswith((b"<svg", b"<?xml")) and b"<svg" in data[:4096].lower()
        raise UnfitPictureError(PictureRefusal("svg" if is_svg else "not_an_image")) from None


def _known() -> set[str]:
    Image.init()
    return set(Image.OPEN)


def _encoded(image: Any, kind: str, limits: PictureLimits) -> tuple[bytes, str, tuple[int, int]]:
    """PNG for what was sharp, if it fits; else JPEG, smaller and smaller."""
    plain = _in_plain_mode(image)
    plain.thumbnail((limits.max_side, limits.max_side), Image.Resampling.LANCZOS, reducing_gap=3.0)
    pixels = plain.size[0] * plain.size[1] * len(plain.getbands())
    if kind not in ("JPEG", "MPO") and pixels <= PNG_RATIO * limits.max_bytes:
        data = _saved(plain, "PNG")
        if len(data) <= limits.max_bytes:
            return data, "image/png", plain.size
    plain = _flat(plain)
    data = b""
    while True:
        for quality in QUALITIES:
            data = _saved(plain, "JPEG", quality=quality)
            if len(data) <= limits.max_bytes:
                return data, "image/jpeg", plain.size
            if len(data) > 2 * limits.max_bytes:
                break
        if max(plain.size) <= 16:
            raise UnfitPictureError(PictureRefusal("too_large"))
        factor = max(0.3, min(0.9, (limits.max_bytes / len(data)) ** 0.5))
        plain.thumbnail((max(1, int(plain.size[0] * factor)), max(1, int(plain.size[1] * factor))))


def _in_plain_mode(image: Any) -> Any:
    if image.mode in ("RGB", "RGBA", "L"):
        return image.copy()
    if image.mode == "F" or image.mode.startswith("I"):
        return _gray(image)
    has_alpha = image.mode in ("LA", "PA", "La", "RGBa") or "transparency" in image.info
    return image.convert("RGBA" if has_alpha else "RGB")


def _gray(image: Any) -> Any:
    """Eight bits a pixel from more; a plain conversion would cut off what is brighter."""
    wide = image.convert("F")
    low, high = wide.getextrema()
    factor = 255 / (high - low) if high > low else 1.0

    def scale(value: Any) -> Any:
        return value * factor + -low * factor

    return wide.point(scale).convert("L")


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
    except UnfitPictureError as error:
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
