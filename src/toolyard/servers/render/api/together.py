"""Several questions at once, a few at a time: one that fails does not take the others' answers away."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ..entries import LogsError

T = TypeVar("T")


async def together(bound: int, questions: Sequence[Coroutine[Any, Any, T]]) -> "list[T | LogsError]":
    """The answers in order; in the place of one that failed, why."""
    gate = asyncio.Semaphore(bound)

    async def ask(question: Coroutine[Any, Any, T]) -> T | LogsError:
        async with gate:
            try:
                return await question
            except LogsError as error:
                return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(question)) for question in questions]
    return [task.result() for task in tasks]
