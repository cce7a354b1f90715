"""The library: its names, that each is documented, and what importing it does not import."""

import inspect
import subprocess
import sys
from types import ModuleType, UnionType

import pytest

import antiphon

PUBLIC = """
    AnyEvent Ask ChatRequest Check CheckOutcome CheckWork Compact Count CreateResponse Dialect Done EngineKnowledge
    Environment Estimate Exchange MessageEncoder Model PlainDelta Response RunTools Sealer SseEncoder Step ToolCall
    ToolResult Uncounted Usage body_to_request chat_to_bytes dialects errors events expand http_answer_to_error new_id
    run_check run_exchange
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


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_documented(name: str) -> None:
    value = getattr(antiphon, name)
    if isinstance(value, UnionType):
        return
    assert isinstance(value, ModuleType) or inspect.isclass(value) or inspect.isfunction(value)
    # A dataclass without a docstring gets one that lists its fields.
    assert value.__doc__
    assert not value.__doc__.startswith(f"{name}(")


def test_the_import_is_light() -> None:
    program = "import sys; from antiphon import *; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(found.stdout.split()) == set()


@pytest.mark.parametrize("module", ["cli", "app", "core.replay", "embedded.child", "errors", "gateway.check_process", "wire"])
def test_any_module_can_be_imported_first(module: str) -> None:
    imported = subprocess.run([sys.executable, "-c", f"import antiphon.{module}"], capture_output=True, text=True)
    assert (imported.returncode, imported.stderr) == (0, "")
