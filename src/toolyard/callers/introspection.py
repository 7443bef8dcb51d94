"""Opaque tokens: asks their issuer about them (RFC 7662).

An answer is kept shortly: a good one for at most `GOOD_FOR`, so that a withdrawn token stops counting within
that time, a bad one for `BAD_FOR`. One question at a time is asked about a token, and `MAX_QUESTIONS` in all.
While the issuer cannot be asked, tokens that are not known are refused with IssuerUnavailableError.
"""

import asyncio
import base64
import hashlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote_plus

import msgspec
from msgspec import Struct

from ..config.callers import IssuerConfig
from ..wire.call import Principal
from .claims import (
    Validity,
    accepted_audiences,
    audiences,
    check_audience,
    check_kind,
    check_scopes,
    read_principal,
    validity,
)
from .errors import InvalidTokenError, IssuerUnavailableError, RefusedTokenError
from .issuer_client import IssuerClient

logger = logging.getLogger("toolyard.callers")

GOOD_FOR = 60.0
BAD_FOR = 5.0
MAX_OPAQUE_TOKEN = 4096
MAX_ANSWER = 64 * 1024
MAX_ANSWERS = 10_000
MAX_QUESTIONS = 32
MAX_WAITING = 1000
FAILURES = 3
"""After so many failures in a row nobody is sent to the issuer for `PAUSE` seconds."""
PAUSE = 5.0


class _TokenAnswer(Struct):
    """What the issuer said of a token; no principal if it does not count."""

    until: float
    """By the clock that does not jump."""
    principal: Principal | None = None
    validity: Validity | None = None
    audiences: frozenset[str] = frozenset()
    reason: str = ""


class TokenIntrospector:
    def __init__(
        self,
        issuer: IssuerConfig,
        scopes: tuple[str, ...],
        client: IssuerClient,
        endpoint: str = "/mcp",
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` is the time of day, which tokens mean; `clock` does not jump."""
        self._issuer = issuer
        self._scopes = scopes
        self._client = client
        self._endpoint = endpoint
        self._now = now
        self._clock = clock
        self._answers: dict[bytes, _TokenAnswer] = {}
        self._questions: dict[bytes, asyncio.Task[_TokenAnswer]] = {}
        self._slots = asyncio.Semaphore(MAX_QUESTIONS)
        self._failures = 0
        self._paused_until = float("-inf")
        # RFC 6749, 2.3.1: both parts are encoded as in a form before they are joined.
        pair = f"{quote_plus(issuer.client_id)}:{quote_plus(issuer.client_secret)}"
        self._authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def recognizes(self, token: str) -> bool:
        """Any token: an opaque one has no shape. Whoever has a chain of verifiers asks this one last."""
        return True

    async def verify(self, token: str, resource: str) -> Principal:
        if len(token) > MAX_OPAQUE_TOKEN or not token.isascii() or not token.isprintable():
            raise RefusedTokenError("The token cannot be one of the issuer's")
        digest = hashlib.sha256(token.encode()).digest()
        answer = self._answers.get(digest)
        if answer is None or self._clock() >= answer.until:
            answer = await self._ask_once(token, digest)
        if answer.principal is None or answer.validity is None:
            raise RefusedTokenError(answer.reason)
        answer.validity.check(self._now())
        check_audience(answer.audiences, accepted_audiences(self._issuer.audiences, resource, self._endpoint))
        check_scopes(answer.principal, self._scopes)
        return answer.principal

    async def close(self) -> None:
        questions = list(self._questions.values())
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        await self._client.close()

    async def _ask_once(self, token: str, digest: bytes) -> _TokenAnswer:
        """Joins the question about this token that is under way, or asks it."""
        question = self._questions.get(digest)
        if question is None:
            if self._failures >= FAILURES and self._clock() < self._paused_until:
                raise _unavailable(self._paused_until - self._clock())
            if len(self._questions) >= MAX_WAITING:
                raise _unavailable(1.0)
            question = asyncio.create_task(self._ask(token, digest))
            self._questions[digest] = question
            question.add_done_callback(partial(self._end_question, digest))
        return await asyncio.shield(question)

    def _end_question(self, digest: bytes, question: asyncio.Task[_TokenAnswer]) -> None:
        self._questions.pop(digest, None)
        if not question.cancelled():
            question.exception()  # whoever asked may be gone, and then nobody else looks at it

    async def _ask(self, token: str, digest: bytes) -> _TokenAnswer:
        async with self._slots:
            try:
                claims = await self._claims(token)
            except IssuerUnavailableError as error:
                if self._failures == 0:
                    logger.warning("%s cannot be asked about tokens: %s", self._issuer.issuer, error)
                self._failures += 1
                self._paused_until = self._clock() + PAUSE
                raise _unavailable(PAUSE) from None
        self._failures = 0
        before = self._answers.get(digest)
        answer = self._read(claims, digest)
        if before is not None and before.principal == answer.principal:
            answer.principal = before.principal  # the same object, by which others keep what they derived
        self._answers.pop(digest, None)
        while len(self._answers) >= MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]
        self._answers[digest] = answer
        return answer

    async def _claims(self, token: str) -> dict[str, Any]:
        reply = await self._client.post(
            self._issuer.introspection_url,
            {"token": token, "token_type_hint": "access_token"},
            {"Authorization": self._authorization},
            MAX_ANSWER,
        )
        if reply.status != 200:
            hint = "; check client_id and client_secret" if reply.status in (400, 401, 403) else ""
            raise IssuerUnavailableError(f"it answered {reply.status}{hint}")
        try:
            return msgspec.json.decode(reply.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise IssuerUnavailableError("its answer is not a JSON object") from None

    def _read(self, claims: dict[str, Any], digest: bytes) -> _TokenAnswer:
        until = self._clock()
        try:
            if claims.get("active") is not True:
                raise RefusedTokenError("The token is not active: expired, withdrawn, or not the issuer's")
            if claims.get("iss", self._issuer.issuer) != self._issuer.issuer:
                raise RefusedTokenError("The token is of an issuer that is not trusted here")
            check_kind(claims)
            times = validity(claims, self._issuer.leeway)
            principal = read_principal(claims, self._issuer, "introspection", digest.hex()[:16])
        except InvalidTokenError as error:
            return _TokenAnswer(until + BAD_FOR, reason=error.reason)
        return _TokenAnswer(until + GOOD_FOR, principal, times, audiences(claims))


def _unavailable(seconds: float) -> IssuerUnavailableError:
    return IssuerUnavailableError("The token's issuer cannot be asked about it now", seconds)
