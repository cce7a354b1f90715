"""A hosted tool is one row: `ABACUS` says what there is to know of it, and `Abacus` runs it.

A tool of the gateway itself is in `core.hosted.rows.HOSTED`. This one is added to the tables that are made of these rows.
"""

from typing import Any

import msgspec
import pytest
from msgspec import Struct
from support.engine import MockEngine, answer, call, text
from support.gateway import CHECKER, running_gateway

from antiphon.app.parts import Extensions
from antiphon.core.exchange import tool_runs
from antiphon.core.exchange.steps import ToolCall
from antiphon.core.hosted.hosted_tool import HostedDefinition, HostedTool
from antiphon.core.hosted.rows import BY_KIND
from antiphon.core.items.call_forms import SilentForm
from antiphon.core.items.item_type import Draft, ItemType, note_to_chat
from antiphon.core.prompt.item_types import ITEM_TYPES
from antiphon.core.toolbox.built_in import TEXT, parameters
from antiphon.core.toolbox.toolbox import Toolbox
from antiphon.core.toolbox.tools import ToolIdentity, ToolResult
from antiphon.tools.runner import ToolContext, ToolRunner
from antiphon.wire.chat import ChatFunction
from antiphon.wire.hosted_items import type_of
from antiphon.wire.input_items import Item, Tool
from antiphon.wire.responses import Status, ToolUsage

# ---- the shape: `wire` -----------------------------------------------------------------------------------------------


class AbacusCall(Struct, tag="abacus_call"):
    id: str
    status: str
    formula: str
    result: str | None = None


# ---- the row: `core.hosted` ------------------------------------------------------------------------------------------

KIND = "abacus"


class AbacusForm(SilentForm):
    prefix = "ab"
    runs_here = True
    accepts = parameters({"formula": {"type": ["string", "number"]}}, "formula")

    _result: str | None = None

    def complete(self, result: ToolResult) -> tuple[()]:
        self._result = result.output
        return ()

    def item(self, status: Status) -> Any:
        return AbacusCall(self._id, status, str(self.members.get("formula")), self._result)


class AbacusDefinition(HostedDefinition):
    form = AbacusForm

    def define(self, box: Toolbox, tool: Tool, where: str, namespace: str | None = None) -> None:
        box.add(ToolIdentity(KIND, KIND), ChatFunction("", "Adds numbers.", parameters({"formula": TEXT}, "formula")), where)


def abacus_to_chat(draft: Draft, item: Item, where: str) -> None:
    if not isinstance(item.get("formula"), str):
        note_to_chat(draft, item, where)
        return
    draft.call(item["id"], ToolIdentity(KIND, KIND), msgspec.json.encode({"formula": item["formula"]}).decode())
    draft.output(item["id"], [{"type": "text", "text": str(item.get("result"))}], where)


COUNTED: list[str] = []


def count(usage: ToolUsage, native: ToolIdentity, result: ToolResult) -> None:
    COUNTED.append(result.output)


ABACUS = HostedTool(
    definitions={KIND: AbacusDefinition},
    items=(ItemType(type_of(AbacusCall), abacus_to_chat, prefix=AbacusForm.prefix),),
    count=count,
)

# ---- the runner: `tools` ---------------------------------------------------------------------------------------------


class Abacus(AbacusDefinition, ToolRunner):
    def __init__(self) -> None:
        self.arguments: list[str] = []

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        self.arguments.append(call.arguments)
        formula = str(msgspec.json.decode(call.arguments)["formula"])
        return ToolResult(str(sum(int(each) for each in formula.split("+"))))


# ---- what comes of it ------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _has_an_abacus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_runs, "BY_KIND", {**BY_KIND, **dict.fromkeys(ABACUS.definitions, ABACUS)})
    for row in ABACUS.items:
        monkeypatch.setitem(ITEM_TYPES, row.type, row)
    COUNTED.clear()


async def test_its_calls_are_run_counted_and_read_again_in_the_next_turn(engine: MockEngine) -> None:
    engine.will(answer(call(KIND, '{"formula": "1+2"}', id="a"), finish="tool_calls"), text("Three."), text("Still three."))
    extensions = Extensions(tools={KIND: Abacus()}, checker=CHECKER)
    body: dict[str, Any] = {"model": "mock", "tools": [{"type": KIND}], "store": False}
    async with running_gateway(engine, extensions=extensions) as gateway:
        _, first = await gateway.post({**body, "input": "1+2?"})
        made, said = first["output"]
        assert (made["type"], made["formula"], made["result"]) == ("abacus_call", "1+2", "3")
        question = {"role": "user", "content": "Sure?"}
        await gateway.post({**body, "input": [{"role": "user", "content": "1+2?"}, made, said, question]})
    user, called, result, *_ = engine.last["messages"]
    assert called["tool_calls"][0]["function"] == {"name": KIND, "arguments": '{"formula":"1+2"}'}
    assert (user["role"], result["content"]) == ("user", "3")
    assert COUNTED == ["3"]


async def test_arguments_may_be_written_as_its_form_accepts_them(engine: MockEngine) -> None:
    engine.will(answer(call(KIND, '{"formula": 3}', id="a"), finish="tool_calls"), text("Three."))
    abacus = Abacus()
    async with running_gateway(engine, extensions=Extensions(tools={KIND: abacus}, checker=CHECKER)) as gateway:
        _, response = await gateway.post({"model": "mock", "input": "3?", "tools": [{"type": KIND}], "store": False})
    assert response["output"][0]["result"] == "3"
    assert abacus.arguments == ['{"formula": 3}'], "no text is made of the number"
