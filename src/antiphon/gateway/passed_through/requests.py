"""Requests that are passed through: an engine gets the body as it came, but for the model, if another one answers."""

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
import msgspec

from antiphon.core.protocols.responses.read import decode_json
from antiphon.engines.upstream import Engine
from antiphon.gateway.limits.engine_limits import EngineSeat
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.usage.counting import PassedAnswer
from antiphon.gateway.usage.ledger import NO_MODEL, Ledger
from antiphon.store.account_records import Counts


def model_of(body: bytes) -> str | None:
    """The model that a body names."""
    value = decode_json(body)
    model = value.get("model") if isinstance(value, dict) else None
    return model if isinstance(model, str) else None


def _with_model(body: bytes, model: str) -> bytes:
    value = decode_json(body)
    return msgspec.json.encode(value | {"model": model}) if isinstance(value, dict) else body


class PassedBody(NamedTuple):
    body: bytes
    # The model that it names.
    named: str | None
    # By which it belongs with other requests, on one engine.
    affinity: str | None = None


class PassedRequest(NamedTuple):
    body: bytes
    engine: Engine
    model: str | None
    notices: Sequence[str]

    @classmethod
    async def choose(
        cls, gateway: Gateway, owner: str, body: PassedBody, default: str | None = None, *, patient: bool = False
    ) -> Self:
        """`default`: the model of a body that names none."""
        asked = body.named if body.named is not None else default
        chosen = await gateway.pool.choose(asked, body.affinity)
        model, sent = chosen.model if chosen.model is not None else asked, body.body
        if model is not None and model != body.named:
            change = partial(_with_model, sent, model)
            sent = await gateway.aside(change, owner, large=len(sent) >= LARGE_BODY, patient=patient)
        engine = chosen.engines[0]
        return cls(sent, engine, chosen.model or engine.knowledge.default_model, chosen.notices)

    async def ask(self, path: str, seat: EngineSeat) -> aiohttp.ClientResponse:
        await seat.take(self.engine)
        return await self.engine.post(path, self.body)


class PassedUsage:
    """What a request that is passed through has used. It is counted at the end of its block, whatever became of it."""

    __slots__ = ("_channel", "_ledger", "_model", "_owner", "answer")

    def __init__(self, ledger: Ledger, owner: str, passed: PassedRequest, channel: str) -> None:
        self._ledger = ledger
        self._owner = owner
        self._model = passed.model or NO_MODEL
        self._channel = channel
        # None until it begins.
        self.answer: PassedAnswer | None = None

    def begin(self, body: bytes, *, failed: bool) -> PassedAnswer:
        self.answer = PassedAnswer(body, failed=failed)
        return self.answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        counts = Counts(1, failures=1) if self.answer is None else self.answer.counts()
        self._ledger.count(self._owner, self._model, self._channel, counts)
