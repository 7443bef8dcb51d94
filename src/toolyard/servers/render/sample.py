"""A sample source: four services of a small shop, with a day of logs that ends now."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from .model import (
    LogEntry,
    LoggedService,
    LogNotice,
    LogQuery,
    LogResult,
    ReportProgress,
    ServiceStatus,
    choose_services,
    has_text,
    is_wanted,
)

_SERVICES = (
    LoggedService(id="srv-sample-web", name="shop-web", type="web_service", url="https://shop.example"),
    LoggedService(id="srv-sample-worker", name="shop-worker", type="background_worker"),
    LoggedService(id="dpg-sample-db", name="shop-db", type="postgres"),
    LoggedService(id="red-sample-cache", name="shop-cache", type="key_value"),
)
_TRACEBACK = """Payment of order 1041 failed
Traceback (most recent call last):
  File "/app/shop/payments.py", line 88, in charge
    reply = await bank.post("/charges", order.charge)
  File "/app/shop/bank.py", line 31, in post
    raise BankTimeout(f"no answer in {self.seconds} s")
shop.bank.BankTimeout: no answer in 5 s"""
# Minutes before now, service, type, level, message.
_LINES = (
    (0.4, "shop-web", "request", "info", "GET /health 200 3ms"),
    (1.2, "shop-web", "app", "info", "Order 1042 placed by customer 77, 3 items, 129.90"),
    (2.1, "shop-worker", "app", "info", "Receipt of order 1042 sent"),
    (3.0, "shop-web", "request", "error", "POST /checkout 502 5003ms"),
    (3.1, "shop-web", "app", "error", _TRACEBACK),
    (4.7, "shop-db", "app", "warning", "checkpoints are occurring too frequently (22 seconds apart)"),
    (6.5, "shop-web", "request", "warning", "GET /admin 404 2ms"),
    (9.0, "shop-worker", "app", "error", "Import of prices.csv stopped: line 318 has 6 columns instead of 7"),
    (12.5, "shop-cache", "app", "info", "1000 changes in 60 seconds. Saving..."),
    (18.0, "shop-web", "app", "warning", "Pool of database connections is at 18 of 20"),
    (24.0, "shop-web", "app", "error", "Payment of order 1039 failed: card declined"),
    (41.0, "shop-web", "app", "info", "Started on port 10000, version 2026.11.3"),
    (43.0, "shop-web", "build", "info", "Build successful in 71 s"),
    (44.2, "shop-web", "build", "info", "Installing dependencies from requirements.txt"),
    (58.0, "shop-db", "app", "error", "canceling statement due to statement timeout"),
    (190.0, "shop-worker", "app", "info", "Nightly report written, 412 orders"),
    (600.0, "shop-web", "app", "info", "Order 1007 placed by customer 12, 1 item, 19.90"),
    (1300.0, "shop-db", "app", "info", "automatic vacuum of table \"shop.public.orders\""),
)  # fmt: skip


class SampleLogs:
    kind = "sample"

    async def logs(self, query: LogQuery, report: ReportProgress) -> LogResult:
        wanted = query.service or "web"
        names = {service.name for service in choose_services(wanted, _SERVICES)}
        kind = query.type_or("app" if wanted == "web" else "")
        now = datetime.now(UTC)
        found = [
            entry
            for entry in _entries(now)
            if entry.service in names
            and entry.timestamp >= now - query.period
            and (not kind or entry.type == kind)
            and is_wanted(entry.level, query.level)
            and has_text(entry.message, query.text)
        ]
        return LogResult(
            service=wanted,
            type=kind,
            entries=found[: query.limit],
            has_more=len(found) > query.limit,
            notices=[LogNotice("sample")],
        )

    async def statuses(
        self, explain: Callable[[LogNotice], str], report: ReportProgress
    ) -> list[ServiceStatus]:
        now = datetime.now(UTC)
        since = now - timedelta(minutes=15)
        errors = [
            entry.service for entry in _entries(now) if entry.level == "error" and entry.timestamp > since
        ]
        return [
            ServiceStatus(
                name=service.name,
                ok=True,
                status=status,
                last_deploy=None,
                id=service.id,
                type=service.type,
                suspended=False,
                deploy=status,
                errors_15min=errors.count(service.name),
                url=service.url,
            )
            for service in _SERVICES
            for status in ("live" if service.id.startswith("srv-") else "available",)
        ]

    async def names(self) -> list[str]:
        return [service.name for service in _SERVICES]

    async def close(self) -> None:
        pass


def _entries(now: datetime) -> list[LogEntry]:
    return [
        LogEntry((now - timedelta(minutes=ago)).replace(microsecond=0), level, kind, service, message)
        for ago, service, kind, level, message in _LINES
    ]
