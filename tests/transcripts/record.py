"""Records what Codex, the gateway and a real model say to each other: `make transcripts`, then read the diff.

Each short task of bench/models/tasks.py is done once by `antiphon codex exec`, with the model at temperature 0, and becomes the
folder of its name; `questions` has some of the tool questions. The requests and the engine's answers are recorded; the chat
requests and the events are what the gateway makes of them in a replay. After an intended change of those,
`make transcripts ARGS=--rewrite` writes them anew, without the model. `--model`, `--tasks` and `--limit` choose what to record.
"""

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from support.engine import DONE
from support.gateway import GatewayUnderTest, running_gateway
from support.servers import running_app
from transcripts.differences import Body, difference
from transcripts.normal_forms import Normaliser, OwnTexts
from transcripts.replay import SETTINGS, StandIn, facts_of, pin_facts, replayed
from transcripts.transcript import HERE, RecordedAnswer, RecordedEngine, Transcript, read_engine, recorded, write_engine

from bench.models.codex_runs import run_task
from bench.models.judges import Task
from bench.models.questions import PLAIN_QUESTIONS, QUESTIONS, TOOLS
from bench.models.subjects import running_engine
from bench.models.tasks import SHORT_TASKS
from bench.models.watcher import Target, long_session, watching

MODEL = "qwen2.5-coder-1.5b"
QUESTIONS_NAME = "questions"
# One question for each tool.
ASKED = (*QUESTIONS[::5], *PLAIN_QUESTIONS[:2])
CHAT = "/v1/chat/completions"
# The model always takes the most likely token, and an answer without an end is cut off: it would make a large file.
GREEDY = {"temperature": 0, "seed": 1}
MOST_TOKENS = 400
# Letters of a difference.
MOST_SHOWN = 1000
LENGTH_MEMBERS = ("max_completion_tokens", "max_tokens")
# What the gateway reads of the engine's documents, besides the list of models.
PROPS = ("build_info", "modalities")


@dataclass
class Asked:
    chat: Body
    # None: the answer did not come to its end.
    answer: RecordedAnswer | None = None


@dataclass
class Exchanges:
    """The requests of the client, and for each of them what the engine was asked."""

    requests: list[tuple[Body, list[Asked]]] = field(default_factory=list)

    def begin(self, body: bytes) -> None:
        self.requests.append((msgspec.json.decode(body), []))

    def transcript(self, texts: OwnTexts) -> tuple[Transcript, list[Body]]:
        """Up to the first answer that is missing; and the chat requests that the engine got."""
        numbered = Normaliser()
        found, chats = Transcript(), []
        for request, asked in self.requests:
            answers = [each.answer for each in asked if each.answer is not None]
            if len(answers) < len(asked) or not asked:
                break
            found.requests.append(numbered.normal(texts.of_request(request)))
            found.answers += [RecordedAnswer(numbered.normal(answer.frames), answer.status) for answer in answers]
            chats += [numbered.normal(texts.of_chat(each.chat)) for each in asked]
        return found, chats


class EngineProxy:
    """Between the gateway and the engine: makes the answers greedy, and keeps them."""

    def __init__(self, engine: Target, session: aiohttp.ClientSession) -> None:
        self.exchanges = Exchanges()
        self.url = ""
        self._engine = engine
        self._session = session

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        url, body = self._engine.url + request.path_qs, await request.read()
        asked = None
        if request.path == CHAT and self.exchanges.requests:
            asked = Asked(msgspec.json.decode(body))
            self.exchanges.requests[-1][1].append(asked)
            limits = {} if any(each in asked.chat for each in LENGTH_MEMBERS) else {LENGTH_MEMBERS[0]: MOST_TOKENS}
            body = msgspec.json.encode(asked.chat | GREEDY | limits)
        headers = {"Authorization": f"Bearer {self._engine.key}", "Content-Type": "application/json"}
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            if answer.status != 200 or asked is None:
                document = await answer.read()
                if asked is not None:
                    asked.answer = RecordedAnswer([msgspec.json.decode(document)], answer.status)
                return web.Response(status=answer.status, body=document, content_type=answer.content_type)
            return await self._stream(request, answer, asked)

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse, asked: Asked) -> web.StreamResponse:
        passed = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await passed.prepare(request)
        raw = b""
        async for piece in answer.content.iter_any():
            raw += piece
            # Before it is passed on: the gateway may close the connection at once.
            if raw.endswith(DONE):
                asked.answer = RecordedAnswer.of_stream(raw)
            await passed.write(piece)
        await passed.write_eof()
        return passed

    async def document(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {self._engine.key}"}
        async with self._session.get(self._engine.url + path, headers=headers) as answer:
            return msgspec.json.decode(await answer.read())


@asynccontextmanager
async def proxied(engine: Target) -> AsyncIterator[EngineProxy]:
    async with long_session() as session:
        proxy = EngineProxy(engine, session)
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", proxy.pass_on)
        async with running_app(app) as proxy.url:
            yield proxy


# ---- recording -------------------------------------------------------------------------------------------------------


async def record(model: str, names: list[str], limit: float) -> None:
    async with running_engine(model) as engine, proxied(engine) as proxy:
        known = await examine(model, proxy)
        write_engine(known)
        for name in names:
            proxy.exchanges = Exchanges()
            async with running_gateway(embedded=StandIn(model, proxy.url), **SETTINGS) as gateway:
                await gateway.probed()
                pin_facts(gateway, known.facts)
                words = await (
                    ask_questions(gateway, proxy) if name == QUESTIONS_NAME else do_task(name, gateway, proxy, limit)
                )
            await keep(name, proxy.exchanges, known)
            show(f"{name}: {words}")


async def examine(model: str, proxy: EngineProxy) -> RecordedEngine:
    async with running_gateway(embedded=StandIn(model, proxy.url), **SETTINGS | {"probe": True}) as gateway:
        await gateway.probed()
        facts, name = facts_of(gateway), gateway.gateway.pool.engines[0].knowledge.default_model
    listed, props = await proxy.document("/v1/models"), await proxy.document("/props")
    window = {"default_generation_settings": {"n_ctx": props["default_generation_settings"]["n_ctx"]}}
    models = {"object": "list", "data": listed["data"]}
    documents = {"/v1/models": models, "/props": window | {each: props[each] for each in PROPS}}
    return RecordedEngine(name, Normaliser().normal(documents), facts)


async def do_task(name: str, gateway: GatewayUnderTest, proxy: EngineProxy, limit: float) -> str:
    task: Task = next(task for task in SHORT_TASKS if task.name == name)
    target = Target(gateway.url)
    async with watching(target, target) as watcher:
        watcher.when_asked = proxy.exchanges.begin
        with tempfile.NamedTemporaryFile(prefix="antiphon-record-") as log:
            run = await run_task(task, watcher, SETTINGS["help"], limit, Path(log.name))
    return f"{'done' if run.is_done else 'not done'} in {run.seconds:.0f} s, {run.seen.responses} responses {run.failure}"


async def ask_questions(gateway: GatewayUnderTest, proxy: EngineProxy) -> str:
    for question in ASKED:
        body = {
            "model": "mock",
            "input": question.text,
            "tools": TOOLS,
            "store": False,
            "stream": True,
            "max_output_tokens": 100,
        }
        proxy.exchanges.begin(msgspec.json.encode(body))
        async with aiohttp.ClientSession() as client, client.post(f"{gateway.url}/v1/responses", json=body) as answer:
            await answer.read()
    return f"{len(ASKED)} questions"


async def keep(name: str, exchanges: Exchanges, known: RecordedEngine, folder: Path = HERE) -> None:
    texts = OwnTexts()
    found, sent = exchanges.transcript(texts)
    if not found.requests:
        show(f"{name}: nothing was recorded, no response came to its end")
        return
    again = await replayed(found, known)
    again.write(folder / name)
    numbered = Normaliser()
    for number, (then, now) in enumerate(zip([numbered.normal(chat) for chat in sent], again.chats, strict=True)):
        if then != now:
            was = msgspec.json.encode(difference(then, now)).decode()[:MOST_SHOWN]
            show(f"{name}: chat request {number} was another one when it was recorded: {was}")


async def rewrite() -> None:
    known = read_engine()
    for folder in recorded():
        (await replayed(Transcript.read(folder), known)).write(folder)


def show(words: str) -> None:
    print(words, flush=True)  # noqa: T201


def main() -> None:
    names = [*(task.name for task in SHORT_TASKS), QUESTIONS_NAME]
    parser = argparse.ArgumentParser(prog="python -m transcripts.record", description=__doc__)
    parser.add_argument("--model", default=MODEL, help=f"as for `antiphon serve --model`. Default: {MODEL}")
    parser.add_argument("--tasks", nargs="+", default=names, choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--limit", type=float, default=120, metavar="S", help="seconds that a task may take. Default: 120")
    parser.add_argument("--rewrite", action="store_true", help="only write what the gateway makes of the recordings")
    chosen = parser.parse_args()
    asyncio.run(rewrite() if chosen.rewrite else record(chosen.model, chosen.tasks, chosen.limit))


if __name__ == "__main__":
    main()
