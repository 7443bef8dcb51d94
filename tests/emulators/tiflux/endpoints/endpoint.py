"""What an endpoint is: where it is, what it takes, who answers."""

from collections.abc import Callable
from dataclasses import dataclass

from ..asked import Asked, Reply
from ..bodies import NOTHING, Body

Answer = Callable[[Asked], Reply]


@dataclass(frozen=True)
class Endpoint:
    method: str
    path: str
    answer: Answer
    query: tuple[str, ...] = ()
    body: Body = NOTHING
    admin: bool = False
    """Only for keys of administrators."""


def get(path: str, answer: Answer, query: str = "", admin: bool = False) -> Endpoint:
    return Endpoint("GET", path, answer, tuple(query.split()), admin=admin)


def pages(path: str, answer: Answer, query: str = "", admin: bool = False) -> Endpoint:
    return get(path, answer, f"offset limit {query}", admin)


def post(path: str, answer: Answer, body: Body, admin: bool = False) -> Endpoint:
    return Endpoint("POST", path, answer, body=body, admin=admin)


def put(path: str, answer: Answer, body: Body = NOTHING, admin: bool = False) -> Endpoint:
    return Endpoint("PUT", path, answer, body=body, admin=admin)


def delete(path: str, answer: Answer) -> Endpoint:
    return Endpoint("DELETE", path, answer)
