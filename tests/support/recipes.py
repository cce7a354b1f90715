"""The programs of docs/recipes.md: what the engine answers to each, and what each must show, in Python and in JavaScript."""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.app.parts import Extensions
from antiphon.sandbox.runs import KernelRun
from antiphon.settings.tables import ContainerSettings, ToolSettings, VectorStoreSettings, WebSearchSettings
from support.adding_mcp_server import adding_server
from support.doc_blocks import ROOT, blocks
from support.engine import MockEngine, answer, call, chunk, text
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.image_mcp_server import png
from support.kernels import ScriptedKernels
from support.pdfs import make_pdf
from support.search_services import SearchServices

CODE = "plt.savefig('plot.png')"
MANUAL = "The filter is cleaned with warm water, once a month."
# What the engine says, or makes of the request that it got.
Said = bytes | Callable[[Any], bytes]


def capital(body: Any) -> bytes:
    """Whichever of several requests comes first."""
    cities = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid"}
    question = body["messages"][-1]["content"]
    return text(*(city for country, city in cities.items() if country in question))


def seen(body: Any) -> bytes:
    """Only for who has sent the picture."""
    kinds = [part["type"] for part in body["messages"][-1]["content"]]
    return text("A dot.") if kinds == ["text", "image_url"] else text(f"There is no picture in {kinds}.")


def summary(body: Any) -> bytes:
    """Only for who has sent the text of the PDF."""
    return text("Sales went up.") if "Sales rose by a tenth" in str(body["messages"]) else text("There is no report.")


@dataclass(frozen=True)
class Recipe:
    # What the engine says: one answer after another, or what it says to each request.
    says: Sequence[Said] | Callable[[Any], bytes]
    shows: str


RECIPES: Mapping[str, Recipe] = {
    "Stream": Recipe([text("Once ", "upon a time.")], "Once upon a time.\n5 tokens\n"),
    "Structured output": Recipe([text('{"name": "Ada", ', '"age": 36}')], "Ada 36\n"),
    "Function tools in a loop": Recipe(
        [
            answer(
                call("weather", '{"city": "Paris"}', id="call_1"),
                call("weather", '{"city": "Rome"}', id="call_2", index=1),
                finish="tool_calls",
            ),
            lambda body: text(" and ".join(message["content"] for message in body["messages"] if message["role"] == "tool")),
        ],
        "sunny in Paris and sunny in Rome\n",
    ),
    "Several at once": Recipe(
        capital,
        "What is the capital of France? Paris\nWhat is the capital of Italy? Rome\nWhat is the capital of Spain? Madrid\n",
    ),
    "Conversation": Recipe(
        [text("Hello, Ada."), lambda body: text("Ada" if len(body["messages"]) == 3 else "I do not know.")],
        "Hello, Ada.\nAda\n4 items are stored\n",
    ),
    "Background and resume": Recipe([text("Once ", "upon ", "a time.")], "Once upon a time.\ncompleted\n"),
    "File search with citations": Recipe(
        [
            answer(call("file_search", '{"queries": ["clean the filter"]}'), finish="tool_calls"),
            text("With warm water [1]."),
        ],
        "With warm water.\n  manual.txt, at character 15\n",
    ),
    "Code interpreter with a plot": Recipe(
        [answer(call("python", f'{{"code": "{CODE}"}}'), finish="tool_calls"), text("Here it is.")],
        f"Here it is.\n{CODE}\nsaved plot.png\n",
    ),
    "MCP with approval": Recipe(
        [answer(call("adding__add", '{"a": 2, "b": 40}'), finish="tool_calls"), text("It is 42.")],
        'approved: add {"a": 2, "b": 40}\nIt is 42.\n',
    ),
    "Web search": Recipe(
        [answer(call("web_search", '{"query": "capital of Italy"}'), finish="tool_calls"), text("It is Rome [1].")],
        "It is Rome ([docs.example.com](https://docs.example.com/a)).\n  The first page: https://docs.example.com/a\n",
    ),
    "Embeddings": Recipe([], "0.4\\d a kitten on a rug\n-?0.0\\d the price of oil\n"),
    "Batch": Recipe(capital, "France Paris\nItaly Rome\n"),
    "An image": Recipe(seen, "A dot.\n"),
    "A PDF": Recipe(summary, "Sales went up.\n"),
    "Reasoning": Recipe(
        [answer(chunk({"reasoning_content": "91 = 7 · 13"}), chunk({"content": "No."}), finish="stop")],
        "thought: 91 = 7 · 13\nNo.\n",
    ),
}


def _script(says: Sequence[Said] | Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    if callable(says):
        return says
    left = list(says)

    def next_one(body: Any) -> bytes:
        said = left.pop(0)
        return said(body) if callable(said) else said

    return next_one


def programs(language: str) -> dict[str, str]:
    """By recipe."""
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8").splitlines()

    def section(line: int) -> str:
        return next(each.removeprefix("## ") for each in reversed(page[:line]) if each.startswith("## "))

    return {section(each.line): each.text for each in blocks() if each.page == "docs/recipes.md" and each.language == language}


def _draw(folder: Path) -> KernelRun:
    (folder / "plot.png").write_bytes(png())
    return KernelRun("")


@asynccontextmanager
async def prepared(recipe: str, engine: MockEngine, folder: Path) -> AsyncIterator[tuple[GatewayUnderTest, dict[str, str]]]:
    """A gateway with all that the recipe needs, its files in this folder, and what to replace in its program."""
    engine.otherwise = _script(RECIPES[recipe].says)
    (folder / "manual.txt").write_text(MANUAL)
    (folder / "photo.png").write_bytes(png())
    (folder / "report.pdf").write_bytes(make_pdf("Sales rose by a tenth"))
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(SearchServices())
        adding = await stack.enter_async_context(adding_server()) if recipe == "MCP with approval" else ""
        settings: dict[str, Any] = {
            "tools": ToolSettings(web_search=WebSearchSettings(backend="searxng", url=services.url)),
            "vector_stores": VectorStoreSettings(embedding_model="wordllama"),
            "extensions": Extensions(checker=CHECKER, kernels=ScriptedKernels({CODE: _draw})),
            "containers": ContainerSettings(),
            "cache_dir": str(folder / "cache"),
        }
        gateway = await stack.enter_async_context(running_gateway(engine, **settings))
        yield gateway, {"http://127.0.0.1:8484": gateway.url, "http://127.0.0.1:8000/mcp": adding}


def replaced(program: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        program = program.replace(word, other)
    return program


def is_shown(recipe: str, output: str) -> bool:
    wanted = RECIPES[recipe].shows
    return re.fullmatch(wanted, output) is not None if recipe == "Embeddings" else output == wanted
