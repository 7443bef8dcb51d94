"""One request under observation: its span, its metrics and its log line, in one `with`.

Built from what is on; what is off costs a comparison with None.
"""

from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import Raw

from . import logs
from .metrics import Metrics
from .observed import Observed, current, outcome

if TYPE_CHECKING:
    from .spans import Spanned, Tracing

Meta = dict[str, Raw]
_NO_META: Meta = {}


class Watch:
    """`with Watch(seen, metrics, tracing, meta) as meta`: the block sends `meta` on and fills in `seen`."""

    __slots__ = ("_meta", "_metrics", "_seen", "_spanned", "_started", "_token")

    def __init__(
        self,
        seen: Observed,
        metrics: Metrics | None,
        tracing: "Tracing | None" = None,
        meta: Meta = _NO_META,
    ) -> None:
        self._seen = seen
        self._metrics = metrics
        self._meta = meta
        self._spanned: Spanned | None = None if tracing is None else tracing.forward(seen, meta)

    def __enter__(self) -> Meta:
        self._token = current.set(self._seen)
        self._started = perf_counter()
        return self._meta if self._spanned is None else self._spanned.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        seen = self._seen
        seconds = perf_counter() - self._started
        if error is not None:
            seen.error = error
        if self._spanned is not None:
            self._spanned.__exit__(kind, error, where)
        ended = outcome(seen)
        if self._metrics is not None:
            self._metrics.record(
                seen.server, seen.method, ended, seconds, seen.request_bytes, seen.response_bytes or 0
            )
        logs.finished(seen, ended, seconds)
        # What was begun during the call keeps its context, and must not keep its frames with the error.
        seen.error = None
        current.reset(self._token)
