"""Clients that talk in turns through a load balancer, and try again as real clients do when a gateway dies under them."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import aiohttp
import msgspec

# Of the deltas of one answer.
DELTAS = 10, 40
# In seconds: the longest time for one turn, with all its attempts; and the pauses before another attempt.
ANSWERED_WITHIN = 300.0
RETRY = 0.5
LOCKED_RETRY = 2.0
ENDS = "response.completed", "response.failed", "response.incomplete"
BROKEN = aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError
# What a load balancer says for a gateway that is not there.
NOT_THERE = 502, 503, 504
STORE_AWAY = "store of responses is not available"

Mode = Literal["streamed", "background"]
Link = Literal["conversation", "previous response"]


@dataclass
class Turn:
    """One that its client has seen complete."""

    marker: str
    id: str
    text: str


@dataclass
class Conversation:
    number: int
    mode: Mode
    link: Link
    id: str = ""
    turns: list[Turn] = field(default_factory=list)
    # The markers of attempts whose end no client saw: they may be stored or not.
    cut: set[str] = field(default_factory=set)


class Retry(Exception):
    """The client has to try again after so many seconds; `cut`: its request may have been done all the same."""

    def __init__(self, why: str, pause: float = RETRY, *, cut: bool = False) -> None:
        super().__init__(why)
        self.pause = pause
        self.cut = cut


class Wrong(Exception):
    """What must not happen."""


class Client:
    """Of one conversation."""

    def __init__(self, url: str, session: aiohttp.ClientSession, talk: Conversation, counts: Counter[str]) -> None:
        self._url = url + "/v1/responses"
        self._conversations = url + "/v1/conversations"
        self._session = session
        self._chance = Random(talk.number)
        self._counts = counts
        self.talk = talk
        # When a stream was cut, by the loop's clock: each must be due to a kill.
        self.cuts: list[float] = []

    async def run(self, until: float, pause: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._chance.uniform(0, pause))
        await self._within(self._open())
        while loop.time() < until or len(self.talk.turns) < 2:
            if not await self._within(self._turn()):
                return
            await asyncio.sleep(min(self._chance.uniform(0, 2 * pause), max(0.0, until - loop.time())))

    async def _within(self, work: Any) -> bool:
        try:
            async with asyncio.timeout(ANSWERED_WITHIN):
                await work
        except TimeoutError:
            self._counts[f"{self.talk.mode}: hangs"] += 1
            return False
        except Wrong as wrong:
            self._counts[f"{self.talk.mode}: {wrong}"] += 1
            return False
        return True

    async def _open(self) -> None:
        while self.talk.link == "conversation" and not self.talk.id:
            try:
                self.talk.id = (await self._post(self._conversations, {}))["id"]
            except Retry as again:
                await asyncio.sleep(again.pause)

    async def _turn(self) -> None:
        attempts = 0
        while True:
            marker = f"<{self.talk.number}.{len(self.talk.turns)}.{attempts}>"
            try:
                made = await (self._streamed(marker) if self.talk.mode == "streamed" else self._background(marker))
            except Retry as again:
                self._counts[f"{self.talk.mode}: {again}"] += 1
                if again.cut:
                    self.talk.cut.add(marker)
                attempts += 1
                await asyncio.sleep(again.pause)
                continue
            self._counts[f"{self.talk.mode}: completed"] += 1
            self.talk.turns.append(made)
            return

    def _body(self, marker: str, **fields: object) -> dict[str, object]:
        body: dict[str, object] = {
            "model": "bench",
            "input": f"Hello {marker}",
            "max_output_tokens": self._chance.randint(*DELTAS),
        }
        if self.talk.link == "conversation":
            body["conversation"] = self.talk.id
        elif self.talk.turns:
            body["previous_response_id"] = self.talk.turns[-1].id
        return body | fields

    # ---- one attempt -------------------------------------------------------------------------------------------------

    async def _streamed(self, marker: str) -> Turn:
        raw = b""
        try:
            async with self._session.post(self._url, json=self._body(marker, stream=True)) as answer:
                self._check(answer.status, b"" if answer.status == 200 else await answer.read())
                async for piece in answer.content.iter_any():
                    raw += piece
        except BROKEN:
            if not raw:
                # Sent to a gateway that was dying, perhaps.
                raise Retry("no answer", cut=True) from None
        ended = [event for event in parsed(raw) if event["type"] in ENDS]
        if not ended:
            self.cuts.append(asyncio.get_running_loop().time())
            raise Retry("cut by a kill", cut=True)
        return self._ended(marker, ended)

    async def _background(self, marker: str) -> Turn:
        made = await self._post(self._url, self._body(marker, background=True))
        id, last, ended = str(made["id"]), -1, list[dict[str, Any]]()
        while not ended:
            events = await self._follow(id, last)
            for event in events:
                if event["sequence_number"] <= last:
                    raise Wrong(f"event {event['sequence_number']} after event {last}")
                last = event["sequence_number"]
            ended = [event for event in events if event["type"] in ENDS]
            if not ended:
                self._counts["background: followed again"] += 1
                await asyncio.sleep(RETRY)
        return self._ended(marker, ended)

    async def _follow(self, id: str, last: int) -> list[dict[str, Any]]:
        """The events after the last one, as far as they come."""
        raw = b""
        query = {"stream": "true"} | ({"starting_after": str(last)} if last >= 0 else {})
        try:
            async with self._session.get(f"{self._url}/{id}", params=query) as answer:
                if answer.status in NOT_THERE:
                    return []
                if answer.status != 200:
                    raise Wrong(f"HTTP {answer.status} for a response that was accepted")
                async for piece in answer.content.iter_any():
                    raw += piece
        except BROKEN:
            pass
        return parsed(raw)

    def _ended(self, marker: str, ended: list[dict[str, Any]]) -> Turn:
        if len(ended) > 1:
            raise Wrong(f"{len(ended)} terminal events")
        response = ended[0]["response"]
        if response["status"] != "completed":
            error = response.get("error") or {}
            if STORE_AWAY in (error.get("message") or ""):
                # On a machine that is too busy for Postgres. Its write may have been done all the same.
                raise Retry("failed, the store was too slow", cut=True)
            raise Wrong(f"{response['status']}: {error.get('code')}, {error.get('message')}")
        return Turn(marker, response["id"], response["output_text"])

    async def _post(self, url: str, body: dict[str, object]) -> Any:
        try:
            async with self._session.post(url, json=body) as answer:
                data = await answer.read()
        except BROKEN:
            raise Retry("no answer", cut=True) from None
        self._check(answer.status, data)
        return msgspec.json.decode(data)

    def _check(self, status: int, data: bytes) -> None:
        if status == 200:
            return
        if status in NOT_THERE:
            # Of nginx: it may have sent the request, and lost the gateway before the answer.
            raise Retry(f"HTTP {status}", cut=True)
        if status == 409 and b"conversation_locked" in data:
            raise Retry("waits for the lock of a gateway that died", LOCKED_RETRY)
        raise Wrong(f"HTTP {status}: {data[:200].decode(errors='replace')}")


def parsed(raw: bytes) -> list[dict[str, Any]]:
    """The events of a stream, as far as they are whole."""
    frames = raw.split(b"\n\n")[:-1]
    lines = [line for frame in frames for line in frame.split(b"\n") if line.startswith(b"data: {")]
    return [msgspec.json.decode(line[6:]) for line in lines]
