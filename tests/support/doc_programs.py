"""The programs in the documents: where each is run, and what those need that `tests/docs/test_programs.py` runs."""

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.app.parts import Extensions
from antiphon.sandbox.runs import KernelRun
from antiphon.settings.tables import (
    ContainerSettings,
    ImageGenerationSettings,
    McpServerSettings,
    McpSettings,
    ToolSettings,
    VectorStoreSettings,
    WebSearchSettings,
)
from antiphon.store.account_records import Counts, UsageEntry, UsageKind
from support import image_mcp_server
from support.doc_blocks import SHELLS, Block, blocks
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, GatewayUnderTest, running_gateway
from support.image_mcp_server import png
from support.kernels import ScriptedKernels
from support.mcp_over_http import adding_server
from support.office_files import make_docx
from support.pdfs import make_pdf
from support.search_services import SearchServices

PLOT = "plt.savefig('plot.png')"
CLEANING = "The filter is cleaned with warm water, once a month."
# What the engine says, or makes of the request that it got.
Said = bytes | Callable[[Any], bytes]


@dataclass(frozen=True)
class Script:
    """What a program gets, and what it must print."""

    # What the engine says: one answer after another, or what it says to each request.
    says: Sequence[Said] | Callable[[Any], bytes]
    shows: str
    # `shows` is a regular expression.
    is_pattern: bool = False
    # An MCP server of its own that adds numbers.
    adds: bool = False
    # What has happened in the gateway before.
    before: Callable[[GatewayUnderTest], Awaitable[None]] | None = None
    admin_key: tuple[str, ...] = ()

    def is_shown_by(self, output: str) -> bool:
        return re.fullmatch(self.shows, output) is not None if self.is_pattern else output == self.shows

    def engine(self) -> Callable[[Any], bytes]:
        if callable(self.says):
            return self.says
        left = list(self.says)

        def next_one(body: Any) -> bytes:
            said = left.pop(0)
            return said(body) if callable(said) else said

        return next_one


# ---- where programs are run --------------------------------------------------------------------------------------------

# The languages of blocks that are programs; of those that are typed into a shell, which have a table of their own; and of those
# that nobody runs.
PROGRAMS = frozenset({"python", "js"})
DATA = frozenset({"json", "toml", "yaml", "text", "markdown"})
LANGUAGES = PROGRAMS | SHELLS | DATA
# By page: the tests that run its programs, and how many these are.
RUN_ELSEWHERE: Mapping[str, tuple[Sequence[str], int]] = {
    "docs/batches.md": (("tests/docs/test_batches_page.py",), 1),
    "docs/clients.md": (("tests/clients/test_documented.py",), 24),
    "docs/library.md": (("tests/examples/test_library_page.py",), 6),
    "docs/quick_start.md": (("tests/docs/test_pages.py",), 1),
    "docs/recipes.md": (("tests/docs/test_recipes.py", "tests/clients/test_recipes.py"), 30),
}
# The programs that no test runs: the name of the block, and the reason.
NOT_RUN: Mapping[str, str] = {}


def is_asked_with_the_report(body: Any) -> bytes:
    """Only for who has sent the text of the PDF."""
    return text("It rose by a tenth.") if "Sales rose by a tenth" in str(body["messages"]) else text("There is no report.")


async def used_in_january(gateway: GatewayUnderTest) -> None:
    counts = Counts(requests=1, input_tokens=700, output_tokens=30)
    entry = UsageEntry("1", 1767225600, UsageKind("ada", "qwen3", "http"), counts)
    await gateway.gateway.store.accounts.add_usage([entry])


SEARCHES = answer(call("file_search", '{"queries": ["clean the filter"]}'), finish="tool_calls")
# By page, its programs in their order.
RUN_HERE: Mapping[str, Sequence[Script]] = {
    "docs/files.md": [Script(is_asked_with_the_report, "It rose by a tenth.\n")],
    "docs/file_search.md": [
        Script(
            [SEARCHES, text("With warm water [1].")],
            r"With warm water\.\n\[AnnotationFileCitation\(.*manual\.pdf.*\)\]\n",
            is_pattern=True,
        )
    ],
    "docs/vector_stores.md": [
        Script(
            [],
            r"completed FileCounts\(cancelled=0, completed=2, failed=0, in_progress=0, total=2\)\n"
            rf"0\.\d+ manual\.pdf \[page 1\]\n{CLEANING}\n0\.\d+ notes\.docx (?s:.*)",
            is_pattern=True,
        )
    ],
    "docs/code_interpreter.md": [
        Script(
            [
                answer(call("python", f'{{"code": "{PLOT}"}}'), finish="tool_calls"),
                text("See [it](sandbox:/mnt/data/plot.png)."),
            ],
            "saved plot.png\n",
        )
    ],
    "docs/tools.md": [
        Script([answer(call("image_generation", '{"prompt": "a cat"}'), finish="tool_calls"), text("Here it is.")], "")
    ],
    "docs/teams.md": [Script([], "1767225600 ada qwen3 700 30\n", before=used_in_january, admin_key=("ADMIN_KEY",))],
}


def programs() -> list[Block]:
    return [block for block in blocks() if block.language in PROGRAMS]


# ---- the gateway that they are run on ------------------------------------------------------------------------------------


def _draw(folder: Path) -> KernelRun:
    (folder / "plot.png").write_bytes(png())
    return KernelRun("")


def write_files(folder: Path) -> None:
    """All files that the programs read."""
    (folder / "manual.txt").write_text(CLEANING)
    (folder / "manual.pdf").write_bytes(make_pdf(CLEANING))
    (folder / "notes.docx").write_bytes(make_docx())
    (folder / "prices.csv").write_text("tea,3\ncoffee,4\n")
    (folder / "photo.png").write_bytes(png())
    (folder / "report.pdf").write_bytes(make_pdf("Sales rose by a tenth"))


@asynccontextmanager
async def prepared(script: Script, engine: MockEngine, folder: Path) -> AsyncIterator[Mapping[str, str]]:
    """A gateway with all that the program needs, its files in this folder; and what to replace in the program."""
    engine.otherwise = script.engine()
    write_files(folder)
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(SearchServices())
        adding = await stack.enter_async_context(adding_server()) if script.adds else ""
        painter = McpServerSettings(command=sys.executable, args=(image_mcp_server.__file__,))
        settings: dict[str, Any] = {
            "tools": ToolSettings(
                web_search=WebSearchSettings(backend="searxng", url=services.url),
                image_generation=ImageGenerationSettings(mcp="images", tool="draw", argument="description"),
            ),
            "mcp": McpSettings(servers={"images": painter}),
            "vector_stores": VectorStoreSettings(embedding_model="wordllama"),
            "extensions": Extensions(checker=CHECKER, kernels=ScriptedKernels({PLOT: _draw})),
            "containers": ContainerSettings(),
            "cache_dir": str(folder / "cache"),
            "admin_key": script.admin_key,
        }
        gateway = await stack.enter_async_context(running_gateway(engine, **settings))
        if script.before is not None:
            await script.before(gateway)
        yield {"http://127.0.0.1:8484": gateway.url, "http://127.0.0.1:8000/mcp": adding}


def replaced(program: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        program = program.replace(word, other)
    return program
