"""Logs as programs write them, with moments before now."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any


def ago(seconds: float = 0) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


def iso(seconds: float) -> str:
    return f"{ago(seconds):%Y-%m-%dT%H:%M:%S.%f}Z"


def write(path: Path, *lines: str) -> Path:
    data = "".join(f"{line}\n" for line in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def journal(seconds: float, unit: str, message: Any, priority: int = 6) -> dict[str, Any]:
    """An entry as `journalctl` has it."""
    return {
        "__CURSOR": f"s=0b5f;i={int(seconds)};b=9c1e;m=4f",
        "__REALTIME_TIMESTAMP": str(int(ago(seconds).timestamp() * 1e6)),
        "__MONOTONIC_TIMESTAMP": "123456",
        "_SYSTEMD_UNIT": f"{unit}.service",
        "SYSLOG_IDENTIFIER": unit,
        "PRIORITY": str(priority),
        "MESSAGE": message,
    }


def as_json(*entries: dict[str, Any]) -> list[str]:
    return [json.dumps(entry) for entry in entries]


def as_export(*entries: dict[str, Any]) -> bytes:
    """The export format: what has line ends is given by its length."""
    return b"".join(b"".join(map(_field, entry.items())) + b"\n" for entry in entries)


def _field(field: tuple[str, Any]) -> bytes:
    name, value = field[0].encode(), field[1].encode()
    if b"\n" in value:
        return name + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"
    return name + b"=" + value + b"\n"
