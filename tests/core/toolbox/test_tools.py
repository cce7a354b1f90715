"""Tool definitions: what the engine gets of each, and what the response says of it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from openai.types.responses import Tool as SdkTool
from pydantic import TypeAdapter
from support.engine import objection

from antiphon.core.knowledge.dialect import Dialect
from antiphon.core.knowledge.dialects import LLAMACPP, PLAIN, VLLM
from antiphon.core.prompt.convert import ChatInputs, Conversion, request_to_chat
from antiphon.core.protocols.responses.fields import request_to_items
from antiphon.core.protocols.responses.read import body_to_request
from antiphon.core.toolbox.definitions import DEFINITIONS
from antiphon.core.toolbox.tools import may_change, may_poll
from antiphon.errors import InvalidRequest
from antiphon.wire.chat import ChatFunction

SDK_TOOL: TypeAdapter[Any] = TypeAdapter(SdkTool)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": CITY}
SPAWN = {"type": "function", "name": "spawn", "description": "Starts an agent."}
WAIT = {"type": "function", "name": "wait"}
AGENTS = {"type": "namespace", "name": "agents", "description": "Helpers that work at the same time.", "tools": [SPAWN, WAIT]}


def converted(*tools: dict[str, Any], dialect: Dialect = PLAIN, **fields: Any) -> Conversion:
    request, _ = body_to_request(msgspec.json.encode({"input": "Hi", "tools": tools, **fields}))
    conversion = request_to_chat(ChatInputs(request, request_to_items(request), dialect, "m"))
    sent = msgspec.json.decode(msgspec.json.encode(conversion.chat))
    assert objection(sent, own_fields={*dialect.extra, *dialect.constrained_extra}) is None
    return conversion


def functions(*tools: dict[str, Any], dialect: Dialect = PLAIN, **fields: Any) -> dict[str, dict[str, Any]]:
    """The functions that the engine gets, by name."""
    offered = converted(*tools, dialect=dialect, **fields).chat.tools or []
    return {tool.function.name: msgspec.to_builtins(tool.function) for tool in offered}


def echoed(*tools: dict[str, Any]) -> list[dict[str, Any]]:
    echo = converted(*tools).box.in_response
    for tool in echo:
        SDK_TOOL.validate_python(tool)
    return echo


def rejection(*tools: dict[str, Any]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as raised:
        converted(*tools)
    return raised.value


# ---- whatever comes --------------------------------------------------------------------------------------------------

kinds = st.sampled_from([*DEFINITIONS, "web_search", "mcp", "mystery"])
odd = st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from(["", "f", "direct", "local"]) | st.just({"type": "local"})
names = "name description parameters strict function tools format environment allowed_callers defer_loading mode namespace"
bodies = st.dictionaries(
    st.sampled_from([*names.split(), "server_label", "execution"]), odd | st.lists(odd, max_size=2), max_size=4
)
leaves = st.builds(lambda kind, body: {**body, "type": kind}, kinds | odd, bodies)
tools = leaves | st.builds(lambda leaf, inner: {**leaf, "tools": inner, "function": leaf}, leaves, st.lists(leaves, max_size=2))


@given(st.lists(tools, max_size=3), st.sampled_from([None, "required", "none"]) | tools | st.just({"type": "allowed_tools"}))
def test_any_tools_and_choices_are_converted_or_rejected_by_their_path(tools: list[dict[str, Any]], choice: Any) -> None:
    refused: str | None = "tool_choice"
    try:
        echo = converted(*tools, tool_choice=choice).box.in_response
    except InvalidRequest as error:
        echo, refused = tools, error.param
    assert refused is not None
    assert refused.startswith(("tools[", "tool_choice"))
    assert len(echo) == len(tools)


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.b", "a b", "é", "a/b", "x" * 129])
def test_an_illegal_name_of_a_function_is_rejected_by_its_path(name: str) -> None:
    refused = rejection(WEATHER, {**WAIT, "name": name})
    assert (refused.param, refused.code) == ("tools[1].name", "invalid_value")
    nested = rejection({"type": "function", "function": {"name": name}})
    assert nested.param == "tools[0].function.name"


def test_names_are_legal_up_to_128_characters_and_of_any_kind_in_a_namespace() -> None:
    assert len(functions({**WAIT, "name": "x" * 128})) == 1
    assert len(functions({**AGENTS, "tools": [{**WAIT, "name": "files/read.v2"}]})) == 1


def test_a_tool_that_is_offered_twice_counts_once_and_the_notice_says_so() -> None:
    conversion = converted(WEATHER, {**WEATHER, "description": "Another."})
    assert conversion.notices == ("tool get_weather was offered twice: the first definition counts",)
    assert [tool.function.description for tool in conversion.chat.tools or ()] == ["The weather."]


def test_the_second_definition_of_a_tool_changes_nothing() -> None:
    grammar = {"type": "grammar", "syntax": "regex", "definition": "a+"}
    note: dict[str, Any] = {"type": "custom", "name": "note"}
    assert converted(note, {**note, "format": grammar}).box.offered.grammars == {}
    assert functions(WAIT, {**WAIT, "strict": False}, dialect=VLLM)["wait"]["strict"] is True


def test_a_tool_that_was_found_twice_is_the_same_tool() -> None:
    found = {"type": "additional_tools", "role": "developer", "tools": [AGENTS, WEATHER, {"type": "shell"}]}
    conversion = converted({"type": "shell"}, input=[found, found, {"role": "user", "content": "Hi"}])
    assert conversion.notices == ()
    assert len(conversion.chat.tools or ()) == 4


# ---- what the engine gets --------------------------------------------------------------------------------------------


def test_the_description_of_a_namespace_is_on_its_first_function() -> None:
    about = "About all tools of agents: Helpers that work at the same time."
    sent = functions(WEATHER, AGENTS)
    assert sent["agents__spawn"]["description"] == f"Starts an agent.\n\n{about}"
    assert "description" not in sent["agents__wait"]
    assert sent["get_weather"]["description"] == "The weather."


def test_the_description_of_a_namespace_is_shown_whichever_of_its_functions_are_allowed() -> None:
    only_wait = {"type": "allowed_tools", "tools": [{**WAIT, "namespace": "agents"}]}
    assert "Helpers that work" in functions(AGENTS, tool_choice=only_wait)["agents__wait"]["description"]


def test_arguments_are_constrained_without_a_wish_where_the_engine_does_that_for_free() -> None:
    tools: list[dict[str, Any]] = [WEATHER, {**WAIT, "strict": False}, {"type": "custom", "name": "note"}, {"type": "shell"}]
    sent = functions(*tools, dialect=VLLM)
    assert [name for name, function in sent.items() if function.get("strict")] == ["get_weather", "note", "shell"]
    for dialect in (PLAIN, LLAMACPP):
        assert not any(function.get("strict") for function in functions(*tools, dialect=dialect).values())


def test_a_schema_that_grammars_cannot_express_is_not_constrained_without_a_wish() -> None:
    odd = {**WEATHER, "parameters": {**CITY, "minProperties": 1}}
    assert "strict" not in functions(odd, dialect=VLLM)["get_weather"]
    assert functions({**odd, "strict": True}, dialect=VLLM)["get_weather"]["strict"] is True


@pytest.mark.parametrize("environment", [None, {"type": "local"}, {}])
def test_a_shell_of_the_client_is_offered(environment: Any) -> None:
    conversion = converted({"type": "shell", "environment": environment})
    assert conversion.notices == ()
    assert len(conversion.chat.tools or ()) == 1


@pytest.mark.parametrize("kind", ["container_auto", "container_reference"])
def test_a_shell_in_a_container_of_another_server_is_left_out(kind: str) -> None:
    conversion = converted({"type": "shell", "environment": {"type": kind, "container_id": "cntr_1"}})
    assert conversion.notices == (f"tool shell was left out: its environment {kind} does not run here",)
    assert not conversion.chat.tools


def test_the_skills_of_a_local_shell_are_described() -> None:
    skills = [{"name": "pdf", "description": "Makes PDF files.", "path": "/skills/pdf"}]
    sent = functions({"type": "shell", "environment": {"type": "local", "skills": skills}})
    assert sent["shell"]["description"].endswith("\n- pdf (/skills/pdf): Makes PDF files.")
    broken = rejection({"type": "shell", "environment": {"type": "local", "skills": [{"name": "pdf"}]}})
    assert broken.param == "tools[0].environment.skills[0].path"


# ---- what cannot be done ---------------------------------------------------------------------------------------------


def test_what_has_no_effect_on_a_tool_is_in_the_notice() -> None:
    deferred = {**AGENTS, "tools": [{**SPAWN, "defer_loading": True}, {**WAIT, "defer_loading": True, "async": True}]}
    assert converted({**WEATHER, "output_schema": CITY, "defer_loading": False}, deferred).notices == (
        "defer_loading of spawn, wait has no effect: the model sees the tool from the start",
        "async of wait has no effect: the result of a call is expected in the next request",
        "output_schema of get_weather has no effect: the model does not see it",
    )


def test_a_notice_names_only_the_first_tools_that_it_is_about() -> None:
    deferred = [{**WAIT, "name": f"f{number}", "defer_loading": True} for number in range(9)]
    (notice,) = converted(*deferred).notices
    assert notice.startswith("defer_loading of f0, f1, f2 and 6 more has no effect")


def test_tools_that_a_search_found_are_not_deferred_any_more() -> None:
    found = {**AGENTS, "tools": [{**SPAWN, "defer_loading": True}]}
    item = {"type": "additional_tools", "role": "developer", "tools": [found]}
    assert converted(input=[item, {"role": "user", "content": "Hi"}]).notices == ()


def test_a_tool_for_programs_only_is_left_out() -> None:
    assert converted({"type": "function", "allowed_callers": ["programmatic"], "async": True}).chat.tools is UNSET
    programmatic = {**WEATHER, "allowed_callers": ["programmatic"]}
    why = "only programs may call it, and they do not run here"
    conversion = converted(programmatic, {**WAIT, "allowed_callers": ["direct", "programmatic"]})
    assert conversion.notices == (f"tool function get_weather was left out: {why}",)
    assert [tool.function.name for tool in conversion.chat.tools or ()] == ["wait"]
    inner = converted({**AGENTS, "tools": [{**SPAWN, "allowed_callers": ["programmatic"]}]})
    assert inner.notices == (f"tool function spawn in namespace agents was left out: {why}",)


# ---- what the response says of them ----------------------------------------------------------------------------------


def test_a_function_is_echoed_flat_with_the_members_that_are_always_there() -> None:
    rest = {"name": "wait", "description": None, "parameters": None, "strict": None}
    assert echoed({"type": "function", "function": {"name": "wait", "description": None}}) == [{"type": "function", **rest}]


def test_new_members_of_tools_are_echoed_as_they_were_given() -> None:
    members = {"defer_loading": True, "allowed_callers": ["direct"], "async": True, "output_schema": CITY}
    assert echoed({**WEATHER, "strict": False, **members}) == [{**WEATHER, "strict": False, **members}]
    assert echoed({"type": "custom", "name": "note", "description": None}) == [{"type": "custom", "name": "note"}]


def test_the_functions_of_a_namespace_are_echoed_flat() -> None:
    nested = {"type": "function", "function": {"name": "spawn", "description": None, "strict": False}}
    assert echoed({"type": "namespace", "name": "agents", "tools": [nested]}) == [
        {
            "type": "namespace",
            "name": "agents",
            "description": "",
            "tools": [{"type": "function", "name": "spawn", "description": None, "parameters": None, "strict": False}],
        }
    ]


def test_secrets_are_not_echoed() -> None:
    mcp = {"type": "mcp", "server_label": "a", "server_url": "http://localhost/"}
    shown = {**mcp, "headers": None, "allowed_tools": None, "require_approval": "always"}
    assert echoed({**mcp, "authorization": "secret", "headers": {"x-key": "secret"}}) == [shown]
    secrets = [{"domain": "example.org", "name": "key", "value": "secret"}]
    policy = {"type": "allowlist", "allowed_domains": ["example.org"]}
    container = {"type": "auto", "network_policy": {**policy, "domain_secrets": secrets}}
    (echo,) = echoed({"type": "code_interpreter", "container": container})
    assert echo == {"type": "code_interpreter", "container": {"type": "auto", "network_policy": policy}}


# ---- what a call may have changed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "description", "changes"),
    [
        ("send_message", "Send a message to a customer.", True),
        ("createOrder", "", True),
        ("switch_lamp", "Switch a lamp on or off.", True),
        ("transfer", None, True),
        ("add_to_shopping_list", "Put an item on the shopping list.", True),
        ("execute_trade", "Executes a trade.", True),
        ("run_payroll", "Pays everybody.", True),
        ("return_item", "Takes an item back.", True),
        ("apply_discount_code", "Applies a code.", True),
        ("mcp__mail__send", "Sends a mail.", True),
        ("update_status", "Updates the status.", True),
        ("give_refund", "Give a customer a refund.", True),
        ("return_car", "Returns a car to the shop.", True),
        ("tell", "Tell a contact something.", True),
        ("check_out", "Check a guest out.", True),
        ("send_file", "Sends a file.", True),
        ("create_poll", "", True),
        ("???", "", True),
        ("get_weather", "", False),
        ("listFiles", "", False),
        ("WebSearch", None, False),
        ("order_status", "", False),
        ("opening_hours", "Get the opening hours of the library.", False),
        ("soil", "Measures how moist the soil is.", False),
        ("weather", "Returns the weather of a city.", False),
        ("mcp__github__search_issues", None, False),
        ("run_tests", "Runs the tests.", False),
        ("execute_code", "", False),
        ("Bash", "Executes a command.", False),
        ("shell_command", "", False),
        ("Write", "Writes a file to the local filesystem.", False),
        ("MultiEdit", "Makes several changes.", False),
        ("write_file", "", False),
        ("check_weather", "", False),
    ],
)
def test_a_tool_may_change_something_unless_its_name_or_description_says_that_it_reads_or_runs(
    name: str, description: str | None, changes: bool
) -> None:
    assert may_change(ChatFunction(name, description, None)) is changes


@pytest.mark.parametrize(
    ("name", "polls"),
    [
        ("order_status", True),
        ("write_stdin", True),
        ("mcp__browser__browser_wait_for", True),
        ("rollDice", True),
        ("browser_press_key", True),
        ("payroll", False),
        ("enroll", False),
        ("set_status", False),
        ("join_wait_list", False),
        ("get_weather", False),
        ("???", False),
    ],
)
def test_which_tools_may_be_called_again_at_once(name: str, polls: bool) -> None:
    assert may_poll(name) is polls
