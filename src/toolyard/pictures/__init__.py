"""Pictures of unknown origin, made to fit: checked, turned upright, scaled down, converted to PNG or JPEG.

`fitting` is the interface; the decoding happens in a worker process (`worker`), with limits on time and
memory.
"""

from .fitting import FittedPicture, PictureError, PictureFitter, PictureLimits, PictureProblem

__all__ = ["FittedPicture", "PictureError", "PictureFitter", "PictureLimits", "PictureProblem"]
