"""Pictures of every kind come out upright, small enough, as PNG or JPEG; others are refused with a reason."""

import io
import random
import struct
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image

from toolyard.pictures import FittedPicture, PictureError, PictureFitter, PictureLimits

LIMITS = PictureLimits(200_000, 500)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fitter() -> AsyncIterator[PictureFitter]:
    fitter = PictureFitter(1)
    yield fitter
    await fitter.close()


pytestmark = pytest.mark.asyncio(loop_scope="module")


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    into = io.BytesIO()
    image.save(into, kind, **options)
    return into.getvalue()


def decoded(found: FittedPicture) -> Image.Image:
    image = Image.open(io.BytesIO(found.data))
    image.load()
    assert Image.MIME[str(image.format)] == found.mime_type
    assert image.size == (found.width, found.height)
    return image


def noise(width: int, height: int) -> Image.Image:
    return Image.frombytes("RGB", (width, height), random.Random(1).randbytes(width * height * 3))


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
async def test_a_picture_that_fits_stays_as_it_is(kind: str, fitter: PictureFitter):
    data = encoded(Image.new("RGB", (100, 80), "teal"), kind)
    found = await fitter.fit(data, LIMITS)
    assert found.data == data
    assert not found.is_scaled


@pytest.mark.parametrize("kind", ["WEBP", "GIF", "BMP", "TIFF", "ICO", "PPM", "AVIF"])
async def test_other_formats_are_converted(kind: str, fitter: PictureFitter):
    found = await fitter.fit(encoded(Image.new("RGB", (64, 64), "red"), kind), LIMITS)
    assert found.format == kind
    red, green, blue = decoded(found).convert("RGB").getpixel((30, 30))  # pyright: ignore
    assert red > 240
    assert max(green, blue) < 20


async def test_a_large_picture_is_scaled_down_until_it_fits(fitter: PictureFitter):
    found = await fitter.fit(encoded(noise(1500, 1000), "PNG"), LIMITS)
    assert len(found.data) <= LIMITS.max_bytes
    assert (found.original_width, found.original_height) == (1500, 1000)
    assert max(found.width, found.height) <= 500
    assert abs(found.width / found.height - 1.5) < 0.02
    decoded(found)


async def test_fifty_megabytes_of_noise_come_out_small(fitter: PictureFitter):
    data = encoded(noise(4200, 4200), "BMP")
    assert len(data) > 50_000_000
    found = await fitter.fit(data, PictureLimits(5 * 1024 * 1024, 6000))
    assert len(found.data) <= 5 * 1024 * 1024
    assert found.mime_type == "image/jpeg"


async def test_a_photograph_is_turned_as_its_camera_says(fitter: PictureFitter):
    image = Image.new("RGB", (80, 40), "white")
    image.paste("blue", (0, 0, 40, 40))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    found = await fitter.fit(encoded(image, "JPEG", exif=exif, quality=95), LIMITS)
    assert (found.width, found.height) == (40, 80)
    assert (found.original_width, found.original_height) == (40, 80)
    top, bottom = (decoded(found).convert("RGB").getpixel((20, y)) for y in (10, 70))
    assert top[2] > 200 > top[0]  # pyright: ignore
    assert bottom[0] > 200  # pyright: ignore


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16", "I", "F"])
async def test_every_mode_of_pixels_comes_out_plain(mode: str, fitter: PictureFitter):
    image = Image.linear_gradient("L").convert("I").point(lambda value: value * 257 + 0)  # up to 65535
    image = image if mode == "I" else image.convert("I;16") if mode == "I;16" else Image.linear_gradient("L")
    if mode not in ("I", "I;16"):
        image = (
            image.convert("RGB").convert(mode) if mode in ("CMYK", "P", "RGBA", "LA") else image.convert(mode)
        )
    found = await fitter.fit(encoded(image, "TIFF"), LIMITS)
    plain = decoded(found).convert("L")
    assert plain.getpixel((0, 0)) < 30  # pyright: ignore
    assert plain.getpixel((0, 255)) > 220, "bright stays bright"  # pyright: ignore


async def test_of_an_animation_the_first_picture_is_used(fitter: PictureFitter):
    frames = [Image.new("RGB", (50, 50), colour) for colour in ("red", "green", "blue")]
    found = await fitter.fit(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]), LIMITS)
    assert found.frames == 3
    assert decoded(found).convert("RGB").getpixel((5, 5)) == (255, 0, 0)


def bomb(side: int) -> bytes:
    """A PNG of few bytes that claims to be huge, and is."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    row = b"\0" * (side // 8 + 1)
    pixels = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


async def test_a_decompression_bomb_is_not_decoded(fitter: PictureFitter):
    data = bomb(30_000)
    assert len(data) < 300_000
    with pytest.raises(PictureError) as raised:
        await fitter.fit(data, LIMITS)
    assert (raised.value.problem, raised.value.width) == ("too_many_pixels", 30_000)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"just text", "not_an_image"),
        (b"<html><body>a page</body></html>", "not_an_image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not_an_image"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "svg"),
        (encoded(noise(200, 200), "PNG")[:60_000], "corrupt"),
        (encoded(noise(200, 200), "JPEG")[:10_000], "corrupt"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 100, "not_an_image"),
    ],
)
async def test_what_is_no_picture_is_refused_with_a_reason(data: bytes, problem: str, fitter: PictureFitter):
    with pytest.raises(PictureError) as raised:
        await fitter.fit(data, LIMITS)
    assert raised.value.problem == problem
