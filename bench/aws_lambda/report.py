"""Rows, targets and verdicts, and the table in the server's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.aws_lambda.built import Built, Pythons
from bench.aws_lambda.figures import TENANTS, Found
from bench.process import ROOT
from bench.report import HEADINGS, Row

PAGE = ROOT / "docs" / "servers" / "tiflux.md"
START, END = "<!-- figures: written by `make bench-lambda` -->", "<!-- end of figures -->"

INIT_OVER_SDK = 0.25
ZIP_MB = 15.0
ON_TOP_MS = 0.5
PEER_OVER_OURS = 20.0


def rows(found: Found, built: Built, pythons: Pythons) -> list[Row]:
    return [*_starts(found), *_zip(built), *_calls(found, pythons), *_tenants(found)]


def _starts(found: Found) -> list[Row]:
    taken, group, unit = found.starts, "start", "ms CPU"
    ratio = _ratio(taken["deployed"], taken["sdk"])
    target = f"<= {INIT_OVER_SDK:g}x"
    sdk = "import mcp"
    return [
        Row(group, sdk, unit, _ms(taken["sdk"])),
        Row(
            group,
            "ready for the first request",
            unit,
            _ms(taken["deployed"]),
            ratio,
            sdk,
            target,
            ratio <= INIT_OVER_SDK,
        ),
        Row(group, "the first get_ticket", unit, _ms(taken["deployed first"])),
        Row(
            group,
            "ready, memory not wiped",
            unit,
            _ms(taken["plain"]),
            _ratio(taken["plain"], taken["sdk"]),
            sdk,
        ),
        Row(group, "the first get_ticket, memory not wiped", unit, _ms(taken["plain first"])),
    ]


def _zip(built: Built) -> list[Row]:
    size = built.zip_bytes / 1e6
    return [
        Row("zip", "zip", "MB", size, target=f"<= {ZIP_MB:g} MB", met=size <= ZIP_MB),
        Row("zip", "unpacked", "MB", built.unpacked_bytes / 1e6),
    ]


def _calls(found: Found, pythons: Pythons) -> list[Row]:
    taken, group, unit = found.calls, "calls", "ms CPU/call"
    lines = [Row(group, "the API call alone", unit, _ms(taken["bare"]))]
    for era in ("modern", "legacy"):
        lines.append(Row(group, f"get_ticket, {era}", unit, _ms(taken[era])))
        lines.append(_on_top(group, f"on top of the API call, {era}", taken[era], taken["bare"], judged=True))
    lines.append(Row(group, "get_ticket, memory not wiped", unit, _ms(taken["plain"])))
    lines.append(
        _on_top(group, "on top, memory not wiped", taken["plain"], taken["bare plain"], judged=False)
    )
    return [*lines, _peer(found, pythons)]


def _on_top(group: str, name: str, ours: Sequence[float], bare: Sequence[float], *, judged: bool) -> Row:
    on_top = median(mine - least for mine, least in zip(ours, bare, strict=True)) * 1e3
    target = f"<= {ON_TOP_MS:g} ms" if judged else ""
    met = on_top <= ON_TOP_MS if judged else None
    return Row(group, name, "ms CPU/call", on_top, target=target, met=met)


def _peer(found: Found, pythons: Pythons) -> Row:
    name, target = "run-mcp-servers-with-aws-lambda", f">= {PEER_OVER_OURS:g}x"
    taken = found.calls["peer"]
    if not taken:
        return Row("calls", f"{name}: {pythons.missing}", "ms CPU/call", None, None, "", target, None)
    ratio = _ratio(taken, found.calls["legacy"])
    return Row(
        "calls", name, "ms CPU/call", _ms(taken), ratio, "get_ticket, legacy", target, ratio >= PEER_OVER_OURS
    )


def _tenants(found: Found) -> list[Row]:
    name = f"{found.checked:,} requests of {TENANTS} tenants, each its own"
    return [Row("tenants", name, "ms CPU/call", found.tenants * 1e3)]


def write(rows: Sequence[Row]) -> None:
    cells = [HEADINGS, ("---", "---:", "---:", "---", "---"), *(row.cells() for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}", encoding="utf-8")


def _ms(rounds: Sequence[float]) -> float:
    return median(rounds) * 1e3


def _ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median of the ratios within each round: drift between rounds cancels out."""
    return median(a / b for a, b in zip(one, other, strict=True))
