"""`_fields`: only these parts of a value, `user.login` one of an object inside.

Of a list each item is looked at. An object that has none of them may be an envelope around what has.
"""

from typing import Any, cast

DEEPEST = 100


def projected(value: Any, fields: tuple[str, ...], depth: int = DEEPEST) -> Any:
    """None when none of them is anywhere in it."""
    if depth == 0:
        return None
    if isinstance(value, list):
        items = [projected(item, fields, depth - 1) for item in cast(list[Any], value)]
        return None if all(item is None for item in items) else items
    if not isinstance(value, dict):
        return None
    members = cast(dict[str, Any], value)
    found: dict[str, Any] = {}
    for field in fields:
        _pick(members, [field] if field in members else field.split("."), found)
    return found or _inside(members, fields, depth)


def _inside(members: dict[str, Any], fields: tuple[str, ...], depth: int) -> Any:
    inner = {name: projected(item, fields, depth - 1) for name, item in members.items()}
    return {name: item for name, item in inner.items() if item is not None} or None


def _pick(members: dict[str, Any], path: list[str], found: dict[str, Any]) -> None:
    name, rest = path[0], path[1:]
    value = members.get(name)
    if not rest:
        if name in members:
            found[name] = value
    elif isinstance(value, dict):
        inner: dict[str, Any] = {}
        _pick(cast(dict[str, Any], value), rest, inner)
        if inner:
            found[name] = _merged(found.get(name), inner)
    elif isinstance(value, list):
        items = _picked(cast(list[Any], value), rest)
        if items is not None:
            found[name] = _merged(found.get(name), items)


def _picked(items: list[Any], path: list[str]) -> list[Any] | None:
    """Of each item what is at the path; nowhere else, or the work would double with each name of it."""
    found: list[Any] = []
    whole = ".".join(path)
    for item in items:
        inner: dict[str, Any] = {}
        if isinstance(item, list):
            found.append(_picked(cast(list[Any], item), path))
            continue
        if isinstance(item, dict):
            members = cast(dict[str, Any], item)
            _pick(members, [whole] if whole in members else path, inner)
        found.append(inner or None)
    return None if all(item is None for item in found) else found


def _merged(old: Any, new: Any) -> Any:
    """Two fields of one object, or of the objects of one list."""
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast(dict[str, Any], old), cast(dict[str, Any], new)
        return {**before, **{name: _merged(before.get(name), item) for name, item in after.items()}}
    if isinstance(old, list) and isinstance(new, list):
        return [_merged(a, b) for a, b in zip(cast(list[Any], old), cast(list[Any], new), strict=True)]
    return cast(Any, new if old is None else old)
