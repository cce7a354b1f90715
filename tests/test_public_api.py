"""The library: its names, that each is documented, and what importing it does not import."""

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from types import ModuleType, UnionType
from typing import Any

import pytest

import antiphon

PUBLIC = """
    AnyEvent Ask AwaitProbe ChatRequest Check CheckOutcome CheckWork CodeFile Compact Count CreateResponse Dialect Done
    EngineKnowledge Environment Estimate Exchange InputTokensDetails ListTools Listing McpListError McpServer McpTool
    MessageEncoder Model OutputTokensDetails PlainDelta Response RunTools Sealer SseEncoder Step ToolCall ToolResult
    Uncounted Usage body_to_request chat_to_bytes dialects errors events expand http_answer_to_error new_id run_check
    run_exchange
""".split()

# What only the server, the command line and the checks need. `regex` is not in the list: the patterns that find the calls in
# a model's text are compiled when the core is imported.
HEAVY = set(
    """
    aiohttp asyncio asyncpg click cryptography json_repair jsonschema_rs lark logging multiprocessing rich socket ssl typer
    uvloop
    """.split()
)


def test_the_public_names_are_these() -> None:
    assert antiphon.__all__ == PUBLIC
    assert sorted(PUBLIC, key=lambda name: (name[0].islower(), name)) == PUBLIC


def test_every_public_name_is_documented() -> None:
    for name in PUBLIC:
        value = getattr(antiphon, name)
        if isinstance(value, UnionType):
            continue
        assert isinstance(value, ModuleType) or inspect.isclass(value) or inspect.isfunction(value), name
        # A dataclass without a docstring gets one that lists its fields.
        assert value.__doc__, name
        assert not value.__doc__.startswith(f"{name}("), name


# ---- what a caller of the exchange needs -----------------------------------------------------------------------------


def own_types(hint: Any) -> Iterator[type]:
    """The types of ours in a type hint. A union that is public itself needs no public members: it is passed on as it is."""
    arguments = typing.get_args(hint)
    if arguments and any(hint == getattr(antiphon, name) for name in PUBLIC):
        return
    if inspect.isclass(hint) and not arguments and hint.__module__.startswith("antiphon."):
        yield hint
    for argument in arguments:
        yield from own_types(argument)


def taken(of: Any) -> set[type]:
    """By the members of a class, or the parameters of a function."""
    hints = typing.get_type_hints(of)
    return {each for name, hint in hints.items() if name != "return" for each in own_types(hint)}


def is_public(kind: type) -> bool:
    return any(getattr(place, kind.__name__, None) is kind for place in (antiphon, antiphon.errors, antiphon.events))


def hidden(kinds: set[type]) -> set[str]:
    return {kind.__name__ for kind in kinds if not is_public(kind)}


STEPS: set[type] = set(typing.get_args(antiphon.Step))
CALLS = [call for name, call in inspect.getmembers(antiphon.Exchange, inspect.isfunction) if not name.startswith("_")]


def test_every_step_is_public_and_so_is_what_it_contains() -> None:
    assert len(STEPS) == 9
    assert hidden(STEPS) == set()
    assert hidden({kind for step in STEPS for kind in taken(step)}) == set()


def test_what_the_calls_of_an_exchange_take_can_be_made_of_public_types() -> None:
    given = {kind for call in CALLS for kind in taken(call)}
    assert {antiphon.Listing, antiphon.ToolResult, antiphon.CheckOutcome, antiphon.Usage} <= given
    assert hidden(given | taken(antiphon.Exchange.__init__)) == set()
    reported = given - {antiphon.EngineKnowledge, antiphon.errors.ApiError}
    assert hidden({member for kind in reported for member in taken(kind)}) == set()


def test_the_import_is_light() -> None:
    program = "import sys; from antiphon import *; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(found.stdout.split()) == set()


@pytest.mark.parametrize(
    "module",
    ["cli", "app.app", "core.exchange.sync_run", "engines.embedded.child", "errors", "gateway.runs.check_process", "wire"],
)
def test_any_module_can_be_imported_first(module: str) -> None:
    imported = subprocess.run([sys.executable, "-c", f"import antiphon.{module}"], capture_output=True, text=True)
    assert (imported.returncode, imported.stderr) == (0, "")
