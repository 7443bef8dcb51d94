"""Files as results: a picture, a sound or anything else, given by its path or its bytes."""

from typing import TYPE_CHECKING

from ...wire.types import Annotations, Audio, BlobContents, EmbeddedResource, Image, TextContents

if TYPE_CHECKING:
    from pathlib import Path


class FileResult:
    """Base of the three. `format` ends the MIME type (`png`); without it the path's ending decides."""

    family = ""
    usual = "application/octet-stream"

    def __init__(
        self,
        path: "str | Path | None" = None,
        data: bytes | None = None,
        format: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        if (path is None) == (data is None):
            raise ValueError(f"{type(self).__name__} takes either a path or data")
        self.path = None if path is None else _path(path)
        self.data = data
        self.annotations = annotations
        self.mime_type = self._mime_type(format)

    def _mime_type(self, format: str | None) -> str:
        if format is not None:
            return f"{self.family}/{format.lower()}"
        return (None if self.path is None else guessed(self.path.name)) or self.usual

    def read(self) -> bytes:
        if self.data is not None:
            return self.data
        assert self.path is not None
        return self.path.read_bytes()

    def block(self) -> Image | Audio | EmbeddedResource:
        """The content block that is sent; reads the file."""
        raise NotImplementedError


class ImageFile(FileResult):
    family = "image"
    usual = "image/png"

    def block(self) -> Image:
        return Image(self.read(), self.mime_type, self.annotations)


class AudioFile(FileResult):
    family = "audio"
    usual = "audio/wav"

    def block(self) -> Audio:
        return Audio(self.read(), self.mime_type, self.annotations)


class File(FileResult):
    """Sent as an embedded resource: as text if its MIME type says that it is one, else as bytes."""

    family = "application"

    def __init__(
        self,
        path: "str | Path | None" = None,
        data: bytes | None = None,
        format: str | None = None,
        name: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        super().__init__(path, data, format, annotations)
        self.name = name or "resource"
        self._ending = format

    def _mime_type(self, format: str | None) -> str:
        if format is None:
            return super()._mime_type(None)
        known = guessed(f"file.{format.lower()}") or ""
        return known if known.startswith("text/") else super()._mime_type(format)

    def _file_name(self) -> str:
        ending = (self._ending or self.mime_type.rpartition("/")[2]).lower()
        return self.name if "." in self.name else f"{self.name}.{ending}"

    def block(self) -> EmbeddedResource:
        uri = f"file:///{self._file_name()}" if self.path is None else self.path.resolve().as_uri()
        data = self.read()
        if self.mime_type.startswith("text/"):
            try:
                return EmbeddedResource(TextContents(uri, data.decode(), self.mime_type), self.annotations)
            except UnicodeDecodeError:
                pass
        return EmbeddedResource(BlobContents(uri, data, self.mime_type), self.annotations)


def _path(path: "str | Path") -> "Path":
    from pathlib import Path  # 4 ms, as below

    return Path(path).expanduser()


def guessed(name: str) -> str | None:
    import mimetypes  # 3 ms that servers without files do without

    return mimetypes.guess_type(name, strict=False)[0]
