"""Embeddings of the model that comes with Antiphon, for requests that name it: where no engine has any."""

import asyncio
import base64
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.core.protocols.responses.fields import RequestLimits
from antiphon.core.protocols.responses.read import read_struct
from antiphon.errors import EngineError, InvalidRequest, counted, quoted
from antiphon.files.vector_stores.search.embeddings import MODEL, WordVectors, normalized
from antiphon.gateway.limits.threads import LARGE_BODY
from antiphon.gateway.runs.gateway import Gateway
from antiphon.gateway.usage.reports import EMBEDDINGS
from antiphon.store.account_records import Counts
from antiphon.wire.embeddings import CreateEmbeddings, Embedding, Embeddings, EmbeddingUsage

if TYPE_CHECKING:
    from antiphon.files.vector_stores.search.embeddings import Vectors

PATH = "/v1/embeddings"
# As OpenAI's API has it; and, of one text, in characters.
MOST_TEXTS = 2_048
LONGEST_TEXT = 100_000
TOKENS = "Invalid `input`: {model} takes texts, and no tokens: they would be another model's."
WRONG = "Invalid `input`: it must be a text, or a list of 1 to {most} texts, none of them empty."
LONG = "Invalid `input`: a text may have {most} here. This one has {has}."


class OwnEmbeddings:
    def __init__(self, vectors: WordVectors | None) -> None:
        """None: the model is not installed, or the settings switch it off."""
        self._vectors = vectors

    @property
    def model(self) -> str | None:
        return None if self._vectors is None else MODEL

    async def answers_for(self, model: str | None, gateway: Gateway) -> bool:
        """An engine that has a model of this name comes first."""
        if model is None or model != self.model:
            return False
        with suppress(EngineError):
            await gateway.pool.ready_engines()
        return not gateway.pool.is_listed(model)

    async def answer(
        self, gateway: Gateway, body: bytes, owner: str, *, patient: bool = False, channel: str = EMBEDDINGS
    ) -> bytes:
        """Tokens are counted by its own tokenizer. `channel`: by which its usage is counted."""
        assert self._vectors is not None
        reading = partial(_read, body, gateway.environment.limits)
        request, texts = await gateway.aside(reading, owner, large=len(body) >= LARGE_BODY, patient=patient)
        vectors, tokens = await self._vectors.embed_counted(texts)
        gateway.ledger.count(owner, MODEL, channel, Counts(1, input_tokens=tokens))
        return await asyncio.to_thread(_to_answer, request, vectors, tokens)


def _read(body: bytes, limits: RequestLimits) -> tuple[CreateEmbeddings, Sequence[str]]:
    request, _ = read_struct(body, CreateEmbeddings, limits)
    return request, _texts(request.input)


def _texts(given: Any) -> Sequence[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not 0 < len(texts) <= MOST_TEXTS:
        raise _wrong(WRONG.format(most=MOST_TEXTS))
    if any(isinstance(each, int | list) and not isinstance(each, bool) for each in texts):
        raise _wrong(TOKENS.format(model=MODEL), "invalid_type")
    if not all(isinstance(each, str) and each for each in texts):
        raise _wrong(WRONG.format(most=MOST_TEXTS))
    if (longest := max(map(len, texts))) > LONGEST_TEXT:
        raise _wrong(LONG.format(most=counted(LONGEST_TEXT, "character"), has=longest), "string_above_max_length")
    return texts


def _wrong(message: str, code: str = "invalid_value") -> InvalidRequest:
    return InvalidRequest(message, param="input", code=code)


def _to_answer(request: CreateEmbeddings, vectors: "Vectors", tokens: int) -> bytes:
    width = vectors.shape[1]
    if request.dimensions is not None:
        if request.dimensions > width:
            problem = f"Invalid `dimensions`: {MODEL} has {width} at most. It is {quoted(request.dimensions)}."
            raise InvalidRequest(problem, param="dimensions", code="invalid_value")
        vectors = normalized(vectors[:, : request.dimensions])
    as_text = request.encoding_format == "base64"
    rows = [base64.b64encode(row.astype("<f4").tobytes()).decode() if as_text else row.tolist() for row in vectors]
    data = [Embedding(row, at) for at, row in enumerate(rows)]
    return msgspec.json.encode(Embeddings(data, MODEL, EmbeddingUsage(tokens, tokens)))
