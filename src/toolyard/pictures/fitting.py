"""The interface of pictures: bytes of somebody's file in, a picture that fits the limits out."""

from typing import Literal

import msgspec
from msgspec import Struct

from ..workers.pool import NoSlotError, WorkerDiedError, WorkerError, WorkerPool

SECONDS = 60.0
SPARE_BYTES = 1024 * 1024
"""Of an answer, beyond the picture itself."""

PictureProblem = Literal["not_an_image", "svg", "corrupt", "too_many_pixels", "too_large", "busy"]


class PictureError(Exception):
    """A picture cannot be used; `problem` says why."""

    def __init__(self, problem: PictureProblem, width: int = 0, height: int = 0) -> None:
        super().__init__(problem)
        self.problem: PictureProblem = problem
        self.width = width
        self.height = height


class PictureLimits(Struct, frozen=True):
    max_bytes: int
    max_side: int
    """In pixels."""
    max_pixels: int = 100_000_000
    """A larger picture is not decoded, unless it is a JPEG, which can be decoded smaller."""


class FittedPicture(Struct, frozen=True, kw_only=True):
    data: bytes
    mime_type: str
    """image/png or image/jpeg."""
    width: int
    height: int
    original_width: int
    original_height: int
    format: str
    """Of the original, such as WEBP."""
    frames: int = 1
    """Of the original; only the first is used."""

    @property
    def is_scaled(self) -> bool:
        return (self.width, self.height) != (self.original_width, self.original_height)


class PictureJob(Struct, frozen=True):
    limits: PictureLimits
    data: bytes


class PictureRefusal(Struct, frozen=True, tag=True):
    problem: PictureProblem
    width: int = 0
    height: int = 0


class PictureAnswer(Struct, frozen=True, tag=True):
    picture: FittedPicture


class PictureFitter:
    """Needs Pillow. Keeps a worker or two for a minute after their last picture."""

    def __init__(self, max_workers: int = 2) -> None:
        self._workers = WorkerPool("toolyard.pictures.worker", max_workers=max_workers)

    async def fit(self, data: bytes, limits: PictureLimits, owner: str = "") -> FittedPicture:
        """The bytes as they are if they fit already. Raises PictureError."""
        job = msgspec.msgpack.encode(PictureJob(limits, data))
        most = max(limits.max_bytes, len(data)) + SPARE_BYTES
        try:
            found = await self._workers.ask(
                job, seconds=SECONDS, max_bytes=most, caller=owner, wait_seconds=SECONDS
            )
        except NoSlotError:
            raise PictureError("busy") from None
        except WorkerDiedError:  # it needed more memory than there is
            raise PictureError("too_large") from None
        except WorkerError:
            raise PictureError("corrupt") from None
        answer = msgspec.msgpack.decode(found, type=PictureAnswer | PictureRefusal)
        if isinstance(answer, PictureRefusal):
            raise PictureError(answer.problem, answer.width, answer.height)
        return answer.picture

    async def close(self) -> None:
        await self._workers.close()
