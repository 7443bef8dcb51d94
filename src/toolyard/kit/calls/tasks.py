"""Tasks: calls that outlive their request, kept in this process until they expire.

Owns `Long` (how a tool becomes a task) and the registry. A task belongs to the principal that started it;
for others its id is unknown.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, field

from ...edge.runner import cancel_and_wait
from ...languages import said
from ...wire.call import Caller
from ...wire.errors import INTERNAL_ERROR, ErrorObject, InternalError, InvalidParams, McpError
from ...wire.messages import encode
from ...wire.text import clean
from ...wire.types import CallToolResult, InputRequest, TaskState
from ..events import TASK_CHANGED, ChangeEvent, EventHub
from ..schema.validation import MismatchError
from .content import error_result
from .input_requests import CallNotes, InputRequestKind, call_and_await

logger = logging.getLogger("toolyard.kit")

MAX_TASKS = 20_000
MAX_TASKS_EACH = 5_000
MAX_TTL = 7 * 24 * 3600.0

Run = Callable[["TaskRequester", Callable[[str], None]], Awaitable[CallToolResult]]


class Long(Struct, frozen=True, kw_only=True):
    """How a long tool becomes a task, for clients that declare the tasks extension.

    Others get the answer inline, unless `required`: then a modern client gets an error.
    """

    required: bool = False
    detach: Literal["at_once", "by_hand"] = "at_once"
    ttl: float = 3600.0
    """Seconds from its creation after which a task is stopped and removed."""
    poll: float = 1.0
    """Seconds that a client should wait between two polls."""

    def __post_init__(self) -> None:
        if self.detach not in ("at_once", "by_hand"):
            raise ValueError(f"detach must be 'at_once' or 'by_hand', not {self.detach!r}")
        if not 0 < self.ttl <= MAX_TTL:
            raise ValueError(f"ttl must be over 0 and at most {MAX_TTL:.0f} seconds, not {self.ttl!r}")
        if not 0 < self.poll <= MAX_TTL:
            raise ValueError(f"poll must be over 0 and at most {MAX_TTL:.0f} seconds, not {self.poll!r}")


class _Question(Struct):
    ask: InputRequestKind
    request: InputRequest
    answer: asyncio.Future[Any]


class Task(Struct, eq=False):
    principal: str
    long: Long
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: Any = "working"
    message: str | None = None
    result: CallToolResult | None = None
    error: ErrorObject | None = None
    questions: dict[str, _Question] = field(default_factory=dict[str, _Question])
    job: asyncio.Task[None] | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    def handle(self) -> TaskState:
        """The answer of `tools/call`: the task without results or questions."""
        return TaskState(
            task_id=self.id,
            status=self.status,
            created_at=_iso(self.created),
            last_updated_at=_iso(self.updated),
            ttl_ms=int(self.long.ttl * 1000),
            poll_interval_ms=max(1, int(self.long.poll * 1000)),
            status_message=self.message or UNSET,
        )

    def state(self) -> TaskState:
        """The whole task, for `tasks/get` and notifications."""
        state = self.handle()
        if self.status == "completed":
            state.result = self.result
        elif self.status == "failed" and self.error is not None:
            state.error = self.error
        elif self.status == "input_required":
            state.input_requests = {key: question.request for key, question in self.questions.items()}
        return state


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _sendable(result: CallToolResult) -> CallToolResult:
    """A task is shown many times; that its result can be written is found out once."""
    try:
        encode(result)
    except Exception as error:
        logger.error("cannot send the result of a task: %s", error)
        return error_result(
            said(f"The result cannot be sent: {error}", f"O resultado não pode ser enviado: {error}")
        )
    return result


def _sendable_error(error: McpError) -> ErrorObject:
    try:
        encode(error.to_wire())
    except Exception as unfit:
        logger.error("cannot send the data of error %d: %s", error.code, unfit)
        return ErrorObject(error.code, error.message)
    return error.to_wire()


class TaskRequester:
    """Shows questions in the task until `tasks/update` answers them."""

    def __init__(self, task: Task, caller: Caller, notes: CallNotes, changed: Callable[[Task], None]) -> None:
        self._task = task
        self._caller = caller
        self._notes = notes
        self._changed = changed

    async def ask(self, questions: dict[str, InputRequestKind]) -> dict[str, Any]:
        if self._task.has_ended:
            raise asyncio.CancelledError("the task has ended")
        answers: dict[str, Any] = {}
        open_questions: dict[str, _Question] = {}
        for key, question in questions.items():
            question.require(self._caller)
            known = self._notes.answers.get(key)
            if known is not None:
                answers[key] = question.read(known)
            else:
                future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                open_questions[key] = _Question(question, question.request("modern"), future)
        if open_questions:
            self._task.questions.update(open_questions)
            self._update_status()
            try:
                for key, item in open_questions.items():
                    answers[key] = await item.answer
            finally:
                self._withdraw(open_questions)
        return answers

    def _withdraw(self, questions: dict[str, _Question]) -> None:
        """Remove unanswered questions that the tool no longer waits for."""
        left = [key for key, item in questions.items() if self._task.questions.get(key) is item]
        for key in left:
            del self._task.questions[key]
        if left:
            self._update_status()

    def _update_status(self) -> None:
        if not self._task.has_ended:
            self._task.status = "input_required" if self._task.questions else "working"
            self._changed(self._task)

    async def remember(self, key: str, make: Callable[[], Any | Awaitable[Any]]) -> Any:
        if key not in self._notes.values:
            self._notes.values[key] = await call_and_await(make)
        return self._notes.values[key]

    async def detach(self) -> None:
        """The call is a task already."""


def no_task(id: str) -> InvalidParams:
    shown = id[:80]
    return InvalidParams(
        said(
            f"Task not found: {shown!r}; it may have expired",
            f"Tarefa não encontrada: {shown!r}; talvez tenha expirado",
        )
    )


class TaskRegistry:
    """All tasks of a server."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._tasks: dict[str, Task] = {}
        self._counts: Counter[str] = Counter()

    def start(self, long: Long, caller: Caller, notes: CallNotes, run: Run) -> Task:
        principal = caller.principal.binding
        if len(self._tasks) >= MAX_TASKS or self._counts[principal] >= MAX_TASKS_EACH:
            message = said(
                "Too many tasks; wait for some to expire", "Tarefas demais; espere que algumas expirem"
            )
            raise McpError(INTERNAL_ERROR, message)
        task = Task(principal, long)
        self._tasks[task.id] = task
        self._counts[principal] += 1
        requester = TaskRequester(task, caller, notes, self._changed)
        task.job = asyncio.create_task(
            self._work(task, run(requester, lambda text: self._set_message(task, text)))
        )
        asyncio.get_running_loop().call_later(long.ttl, self._expire, task)
        return task

    async def _work(self, task: Task, running: Awaitable[CallToolResult]) -> None:
        try:
            result = _sendable(await running)
        except asyncio.CancelledError:
            self._end(task, "cancelled")
            raise
        except McpError as error:
            self._end(task, "failed", error=error)
        except BaseException as error:  # the task's supervisor: nobody else would see the error
            logger.error("task %s failed", task.id, exc_info=error)
            self._end(task, "failed", error=InternalError())
        else:
            self._end(task, "completed", result)

    def _end(
        self, task: Task, status: str, result: CallToolResult | None = None, error: McpError | None = None
    ) -> None:
        # A cancelled task stays cancelled, even if its function still returned.
        if task.has_ended:
            return
        task.status, task.result = status, result
        if error is not None:
            task.error, task.message = _sendable_error(error), error.message
        task.questions.clear()
        self._changed(task)

    def _changed(self, task: Task) -> None:
        task.updated = datetime.now(UTC)
        self._hub.publish(ChangeEvent(TASK_CHANGED, task.id, task.state()))

    def _set_message(self, task: Task, text: str) -> None:
        if not task.has_ended:
            task.message = clean(text)
            self._changed(task)

    def _expire(self, task: Task) -> None:
        if self._tasks.pop(task.id, None) is not None:
            self._counts[task.principal] -= 1
            if not self._counts[task.principal]:
                del self._counts[task.principal]
        if task.job is not None:
            task.job.cancel()

    def find(self, id: str, caller: Caller) -> Task:
        task = self._tasks.get(id)
        if task is None or task.principal != caller.principal.binding:
            raise no_task(id)
        return task

    def owns(self, id: str, caller: Caller) -> bool:
        task = self._tasks.get(id)
        return task is not None and task.principal == caller.principal.binding

    def update(self, task: Task, answers: dict[str, Raw]) -> None:
        """Deliver answers. Unknown and answered keys are ignored; a malformed answer is refused."""
        accepted: dict[str, Any] = {}
        for key, raw in answers.items():
            question = task.questions.get(key)
            if question is not None:
                try:
                    accepted[key] = question.ask.read(raw)
                except MismatchError as error:
                    raise InvalidParams(f"inputResponses[{key!r}]: {error}") from None
        for key, answer in accepted.items():
            future = task.questions.pop(key).answer
            if not future.done():
                future.set_result(answer)
        if accepted and not task.has_ended:
            task.status = "input_required" if task.questions else "working"
            self._changed(task)

    def cancel(self, task: Task) -> None:
        self._end(task, "cancelled")
        if task.job is not None:
            task.job.cancel()

    async def close(self) -> None:
        jobs = [task.job for task in self._tasks.values() if task.job is not None and not task.job.done()]
        await cancel_and_wait(jobs)
        self._tasks.clear()
        self._counts.clear()
