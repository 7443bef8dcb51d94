"""JSON Schemas in few words: for the tools of the emulated apps and for the bodies that the API takes."""

from typing import Any

Schema = dict[str, Any]


def text(description: str = "", **more: Any) -> Schema:
    return _described({"type": "string", **more}, description)


def integer(description: str = "", **more: Any) -> Schema:
    return _described({"type": "integer", **more}, description)


def number(description: str = "", **more: Any) -> Schema:
    return _described({"type": "number", **more}, description)


def boolean(description: str = "", **more: Any) -> Schema:
    return _described({"type": "boolean", **more}, description)


def choice(*values: str, description: str = "", **more: Any) -> Schema:
    return _described({"type": "string", "enum": list(values), **more}, description)


def listing(items: Schema, description: str = "", **more: Any) -> Schema:
    return _described({"type": "array", "items": items, **more}, description)


def texts(description: str = "", **more: Any) -> Schema:
    return listing({"type": "string"}, description, **more)


def free(description: str = "", **more: Any) -> Schema:
    """An object with whatever in it."""
    return _described({"type": "object", "additionalProperties": True, **more}, description)


def mapping(values: Schema, description: str = "") -> Schema:
    return _described({"type": "object", "additionalProperties": values}, description)


def nullable(schema: Schema) -> Schema:
    return (
        {**schema, "type": [schema["type"], "null"]} if "type" in schema else either(schema, {"type": "null"})
    )


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def closed(**properties: Schema) -> Schema:
    """An object with these members and no others. A trailing underscore marks a required one."""
    return {**opened(**properties), "additionalProperties": False}


def opened(**properties: Schema) -> Schema:
    """An object with these members at least. A trailing underscore marks a required one."""
    members = {name.removesuffix("_"): schema for name, schema in properties.items()}
    required = [name.removesuffix("_") for name in properties if name.endswith("_")]
    return {"type": "object", "properties": members} | ({"required": required} if required else {})


def upload(description: str) -> Schema:
    """A file that the caller has put into Composio's store first."""
    node = opened(
        name_=text("The file's name."),
        mimetype_=text("Its media type."),
        s3key_=text("Its key, as the upload request gave it."),
    )
    return {**node, "title": "FileUploadable", "description": description, "file_uploadable": True}


def download(description: str) -> Schema:
    """A file that the caller fetches from Composio's store."""
    node = opened(
        name_=text("The file's name."), mimetype_=text("Its media type."), s3url_=text("Where it is.")
    )
    return {**node, "title": "FileDownloadable", "description": description, "file_downloadable": True}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema
