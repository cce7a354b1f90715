"""The clients that play scenarios: the script of each, and what it must see in the scenarios that all clients share.

A row has the scenarios that its client can play. What only one client does is tested in that client's own module.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.client_conversations import THOUGHT
from support.clients import NodeScript, PythonScript


@dataclass(frozen=True)
class Scenario:
    name: str  # in the client's script
    seen: Any  # what the client must see
    thought: bool  # whether the client sends the model's thought back
    tool: str  # the tool's name at the engine


@dataclass(frozen=True)
class Client:
    """A client and its scenarios: one field for each test in `test_every_client.py`."""

    script: NodeScript | PythonScript
    texts: Sequence[Scenario] = ()
    streams: Sequence[Scenario] = ()
    cut_off: Sequence[Scenario] = ()
    broken: Sequence[Scenario] = ()
    thoughts: Sequence[Scenario] = ()
    calls: Sequence[Scenario] = ()
    forced_calls: Sequence[Scenario] = ()
    repeated_calls: Sequence[Scenario] = ()
    websocket_calls: Sequence[Scenario] = ()
    objects: Sequence[Scenario] = ()
    second_turns: Sequence[Scenario] = ()
    compactions: Sequence[Scenario] = ()
    shells: Sequence[Scenario] = ()
    patches: Sequence[Scenario] = ()
    hosted_servers: Sequence[Scenario] = ()
    denied_servers: Sequence[Scenario] = ()
    failing_servers: Sequence[Scenario] = ()
    # Its calls and objects are played on an engine that writes calls as text, and ignores schemas, too.
    on_weak_engine: bool = False


def sees(seen: Any, *names: str, thought: bool = True, tool: str = "weather") -> list[Scenario]:
    """Scenarios in which a client sees the same."""
    return [Scenario(name, seen, thought=thought, tool=tool) for name in names]


TEXT = {"text": "Hello world", "input": 12}
STREAM = ["Hello", " world"]
ADA = {"name": "Ada", "age": 36}
PARIS = {"city": "Paris"}
RESULT_TEXTS = ["sunny in Paris", "sunny in Rome"]
SUNNY = {"text": "Sunny.", "results": RESULT_TEXTS}
SUNNY_MESSAGES = [["human", "Weather?"], ["ai", ""], *(["tool", result] for result in RESULT_TEXTS), ["ai", "Sunny."]]
AGENT_ITEMS = (
    "reasoning_item tool_call_item tool_call_item tool_call_output_item tool_call_output_item message_output_item".split()
)
AGENT_EVENTS = "reasoning_item_created tool_called tool_called tool_output tool_output message_output_created".split()
# As the AI SDK shows a call of an MCP server that the gateway connects to.
ECHOED = [{"type": "call", "serverLabel": "bad", "name": "echo", "arguments": '{"a": 1}', "output": '{"a": 1}'}]
CALLED = {"text": "Done.", "calls": ["mcp.echo"], "results": ECHOED}
ASKED = [["mcp.echo", {"a": 1}]]
NO_LIST = "Error retrieving tool list from MCP server: 'bad'. The list is lost."
# The scenarios of `hosted_mcp.mjs`.
HOSTED_MCP: dict[str, Any] = {
    "hosted_servers": [
        *sees(CALLED, "mcp", "mcpStreamed"),
        *sees({"text": "Done.", "requests": ASKED, "results": ECHOED}, "mcpApproved", "mcpApprovedStreamed"),
    ],
    "denied_servers": sees({"text": "Done.", "requests": ASKED, "results": []}, "mcpDenied", "mcpDeniedStreamed"),
    "failing_servers": sees(NO_LIST, "mcpFailed", "mcpFailedStreamed"),
}
# As the engine says it, and as the gateway does.
PASSED_FAILURE = "out of memory"
FAILURE = "The engine failed: out of memory"
# As the AI SDK shows it.
FAILED = {"text": "Hel", "finishReason": "error"}
# LangChain shows the error object as text.
FAILURE_AS_TEXT = f"ResponseError(code='server_error', message='{FAILURE}', misalignment=None, param=None, type=None)"

CLIENTS = {
    # Anthropic's package for Python: `anthropic`.
    "anthropic": Client(
        PythonScript("anthropic_sdk.py", environment="openai3"),
        texts=sees(TEXT, "text", "text_of_blocks", "text_with_token", "text_async"),
        streams=sees(STREAM, "stream", "stream_async"),
        cut_off=sees(["Hello", "max_tokens"], "cut", "cut_streamed"),
        broken=sees(["Hel", "api_error", FAILURE], "broken"),
        thoughts=sees([["thinking", THOUGHT], ["text", "Hello, Ada."]], "thought", "thought_streamed"),
        calls=sees("Sunny.", "calls", "calls_streamed", "runner", "runner_streamed", "runner_async"),
        objects=sees(ADA, "parsed", "parsed_stream", "parsed_beta"),
        second_turns=sees("Ada.", "two_turns", "two_turns_streamed", "two_turns_hidden", "two_turns_hidden_streamed", "thread"),
    ),
    # Its package for Node: `@anthropic-ai/sdk`.
    "anthropic_node": Client(
        NodeScript("anthropic_node.mjs"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "max_tokens"], "cut", "cutStreamed"),
        broken=sees(["Hel", "api_error", FAILURE], "broken"),
        thoughts=sees([["thinking", THOUGHT], ["text", "Hello, Ada."]], "thought", "thoughtStreamed"),
        calls=sees("Sunny.", "calls", "callsStreamed", "runner", "runnerStreamed"),
        objects=sees(ADA, "parsed", "parsedStream"),
        second_turns=sees("Ada.", "twoTurns", "twoTurnsStreamed", "twoTurnsHidden", "twoTurnsHiddenStreamed", "thread"),
    ),
    # OpenAI's Agents SDK for Node: `@openai/agents`.
    "agents_node": Client(
        NodeScript("agents.mjs"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        calls=[
            *sees({"text": "Sunny.", "items": AGENT_ITEMS}, "toolLoop", "toolLoopStateless"),
            *sees({"text": "Sunny.", "names": AGENT_EVENTS}, "streamedToolLoop"),
        ],
        websocket_calls=sees("Sunny.", "webSocket"),
        objects=sees(ADA, "object"),
        second_turns=sees("Ada.", "history", "previousResponse", "session"),
        compactions=sees("Ada.", "compaction"),
        shells=sees("Done.", "shell"),
        patches=sees("Done.", "patch"),
    ),
    # Haystack: `OpenAIResponsesChatGenerator`, alone and in an agent.
    "haystack": Client(
        PythonScript("haystack_generator.py", environment="openai3"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "length"], "cut"),
        thoughts=sees({"reasoning": THOUGHT, "text": "Hello, Ada."}, "thought"),
        calls=sees(SUNNY, "agent", "agent_without_store"),
        objects=sees(ADA, "structured"),
        second_turns=sees("Ada.", "two_turns", "two_turns_without_store", "previous_response"),
    ),
    # Inspect: tasks with `responses_api`. In the background it stores nothing, and asks every five seconds.
    "inspect": Client(
        PythonScript("inspect_task.py", environment="inspect"),
        texts=sees(TEXT, "text", "text_in_background"),
        cut_off=sees(["Hello", "max_tokens"], "cut"),
        calls=sees({**SUNNY, "score": "C"}, "tools", "tools_with_store", "tools_in_background"),
        objects=sees(ADA, "structured"),
    ),
    # LangChain: `langchain-openai` with `use_responses_api`, and agents of `langchain`.
    "langchain": Client(
        PythonScript("langchain_agent.py", environment="openai3"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "max_output_tokens"], "cut"),
        broken=sees(["ValueError", FAILURE_AS_TEXT], "broken"),
        thoughts=sees([["reasoning", THOUGHT], ["text", "Hello, Ada."]], "thought"),
        calls=[
            *sees(SUNNY_MESSAGES, "agent", "agent_without_store", "agent_with_previous_response"),
            *sees("sunny in Parissunny in RomeSunny.", "streamed_agent"),
        ],
        objects=sees(ADA, "structured"),
        second_turns=sees(
            "Ada.", "two_turns", "two_turns_without_store", "two_turns_with_previous_response", "two_turns_streamed"
        ),
    ),
    # LangChain as it is by default, over Chat Completions. It does not know thoughts there.
    "langchain_chat": Client(
        PythonScript("langchain_chat.py", environment="openai3"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "length"], "cut", "cut_with_tools"),
        broken=[*sees(["APIError", PASSED_FAILURE], "broken"), *sees(["APIError", FAILURE], "broken_with_tools")],
        calls=[
            *sees(SUNNY_MESSAGES, "agent", thought=False),
            *sees("sunny in Parissunny in RomeSunny.", "streamed_agent", thought=False),
        ],
        forced_calls=[*sees(PARIS, "required", "named"), *sees(ADA, "structured_by_tool", tool="Person")],
        objects=sees(ADA, "structured", "structured_streamed"),
        second_turns=sees("Ada.", "two_turns", "two_turns_streamed", thought=False),
        on_weak_engine=True,
    ),
    # LangChain with Anthropic's models: `langchain-anthropic`.
    "langchain_anthropic": Client(
        PythonScript("langchain_anthropic_agent.py", environment="openai3"),
        texts=sees(TEXT, "text", "text_streamed"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "max_tokens"], "cut"),
        broken=sees(["APIStatusError", "api_error", FAILURE], "broken"),
        thoughts=sees([["reasoning", THOUGHT], ["text", "Hello, Ada."]], "thought", "thought_streamed"),
        calls=[
            *sees(SUNNY_MESSAGES, "agent", thought=False),
            *sees(SUNNY_MESSAGES, "agent_that_thinks"),
            *sees("sunny in Parissunny in RomeSunny.", "streamed_agent"),
        ],
        objects=sees(ADA, "structured"),
        second_turns=sees("Ada.", "two_turns", "two_turns_streamed"),
    ),
    # LangChain for Node: `@langchain/openai` with `useResponsesApi`, and agents of `langchain`.
    "langchain_node": Client(
        NodeScript("langchain.mjs"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        thoughts=sees([{"type": "reasoning", "reasoning": THOUGHT}, {"type": "text", "text": "Hello, Ada."}], "reasoning"),
        calls=[
            *sees(SUNNY_MESSAGES, "agent", "agentStateless"),
            *sees("sunny in Parissunny in RomeSunny.", "streamedAgent"),
        ],
        objects=sees(ADA, "object"),
        second_turns=sees("Ada.", "twoTurns", "twoTurnsStateless", "previousResponse"),
    ),
    # LlamaIndex: `OpenAIResponses` of `llama-index-llms-openai`, alone and in a `FunctionAgent`.
    # It leaves thoughts out of what it sends back.
    "llama_index": Client(
        PythonScript("llama_index_agent.py", environment="openai2"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        thoughts=sees({"reasoning": THOUGHT, "text": "Hello, Ada."}, "thought"),
        calls=sees(SUNNY, "agent", thought=False),
        repeated_calls=sees(SUNNY, "agent_with_previous_responses"),
        objects=sees(ADA, "structured"),
        second_turns=[*sees("Ada.", "two_turns", thought=False), *sees("Ada.", "previous_response")],
    ),
    # The command `llm`: its own models of the Responses API, which send thoughts back sealed, and those of
    # `llm-openai-plugin`, which sends none.
    "llm": Client(
        PythonScript("llm_command.py", environment="openai3"),
        texts=sees({"output": "Hello world\n", "errors": ""}, "text", "plugin_text"),
        calls=sees({"output": "Sunny.\n", "errors": f"{THOUGHT}\n"}, "tools"),
        objects=sees(ADA, "schema", "plugin_schema"),
        second_turns=sees({"output": "Ada.\n", "errors": ""}, "two_turns"),
    ),
    # Mastra: `@mastra/core` with a model of the AI SDK. It does not pass on that a call waits for an approval.
    "mastra": Client(
        NodeScript("mastra.mjs"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        calls=sees(SUNNY, "toolLoop", "streamedToolLoop"),
        objects=sees(ADA, "object"),
        second_turns=sees("Ada.", "twoTurns"),
        hosted_servers=sees(CALLED, "mcp", "mcpStreamed"),
        failing_servers=sees(NO_LIST, "mcpFailed", "mcpFailedStreamed"),
    ),
    # OpenAI's package for Node: `openai`.
    "openai_node": Client(
        NodeScript("openai_node.mjs"),
        texts=sees({**TEXT, "output": 5}, "text"),
        broken=sees({"type": "response.failed", "status": "failed", "code": "server_error", "text": "Hel"}, "broken"),
        thoughts=sees(
            [{"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]}, {"type": "message"}], "reasoning"
        ),
        calls=sees("Sunny.", "continuedCalls", "statelessCalls"),
        objects=sees(ADA, "parsed"),
        second_turns=sees({"text": "Ada.", "items": ["message", "reasoning", "message", "message", "message"]}, "conversation"),
        compactions=sees("Ada.", "compacted"),
    ),
    # The same over Chat Completions.
    "openai_chat_node": Client(
        NodeScript("openai_chat.mjs"),
        texts=sees({**TEXT, "output": 5}, "text", "textStreamed"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "length"], "cut", "cutStreamed"),
        broken=[*sees(["Hel", PASSED_FAILURE], "broken"), *sees(["Hel", FAILURE], "brokenWithTools")],
        thoughts=sees([THOUGHT, "Hello, Ada."], "thought", "thoughtStreamed"),
        calls=[*sees("Sunny.", "calls"), *sees("Sunny.", "callsStreamed", "runTools", "runToolsStreamed", thought=False)],
        forced_calls=sees(PARIS, "required", "namedStreamed"),
        objects=sees(ADA, "parsed", "parsedStream"),
        second_turns=sees("Ada.", "twoTurns", "twoTurnsStreamed"),
        on_weak_engine=True,
    ),
    # Its package for Python, over Chat Completions; the tests in `tests/server/` play the Responses API with it.
    "openai_chat": Client(
        PythonScript("openai_chat.py", environment="openai3"),
        texts=sees(TEXT, "text", "text_async", "text_streamed"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "length"], "cut", "cut_with_tools"),
        broken=[*sees(["Hel", PASSED_FAILURE], "broken"), *sees(["Hel", FAILURE], "broken_with_tools")],
        thoughts=sees([THOUGHT, "Hello, Ada."], "thought", "thought_streamed"),
        calls=sees("Sunny.", "calls", "calls_streamed"),
        forced_calls=sees(PARIS, "required", "named_streamed"),
        objects=sees(ADA, "parsed", "parsed_stream"),
        second_turns=sees("Ada.", "two_turns", "two_turns_streamed"),
        on_weak_engine=True,
    ),
    # Pydantic AI: agents with an `OpenAIResponsesModel`, over HTTP and over a WebSocket.
    "pydantic_ai": Client(
        PythonScript("pydantic_ai_agent.py", environment="openai3"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "length"], "cut"),
        broken=sees(["ModelServerError", FAILURE], "broken"),
        thoughts=sees([["thinking", THOUGHT], ["text", "Hello, Ada."]], "thought"),
        calls=sees("Sunny.", "tools", "tools_without_store", "tools_with_previous_response", "streamed_tools"),
        websocket_calls=sees("Sunny.", "tools_over_websocket"),
        objects=sees(ADA, "structured"),
        second_turns=sees("Ada.", "two_turns", "two_turns_without_store", "two_turns_with_previous_response"),
    ),
    # Pydantic AI with an `AnthropicModel`.
    "pydantic_ai_anthropic": Client(
        PythonScript("pydantic_ai_anthropic_agent.py", environment="openai3"),
        texts=sees(TEXT, "text", "text_streamed"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "length"], "cut"),
        broken=sees(["ModelServerError", FAILURE], "broken"),
        thoughts=sees([["thinking", THOUGHT], ["text", "Hello, Ada."]], "thought"),
        calls=[*sees("Sunny.", "tools", thought=False), *sees("Sunny.", "tools_with_thoughts", "streamed_tools")],
        objects=sees(ADA, "structured"),
        second_turns=sees("Ada.", "two_turns"),
    ),
    # Pydantic AI with an `OpenAIChatModel`.
    "pydantic_ai_chat": Client(
        PythonScript("pydantic_ai_chat.py", environment="openai3"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        cut_off=sees(["Hello", "length"], "cut", "cut_with_tools"),
        broken=[
            *sees(["ModelServerError", PASSED_FAILURE], "broken"),
            *sees(["ModelServerError", FAILURE], "broken_with_tools"),
        ],
        thoughts=sees([["thinking", THOUGHT], ["text", "Hello, Ada."]], "thought"),
        calls=sees("Sunny.", "tools", "streamed_tools"),
        forced_calls=sees(ADA, "structured_by_tool", tool="final_result"),
        objects=sees(ADA, "structured", "structured_streamed"),
        second_turns=sees("Ada.", "two_turns"),
        on_weak_engine=True,
    ),
    # Semantic Kernel: an `OpenAIResponsesAgent`. It names a tool after its plugin and its function.
    "semantic_kernel": Client(
        PythonScript("semantic_kernel_agent.py", environment="openai2"),
        texts=sees("Hello world", "text"),
        streams=sees(STREAM, "stream"),
        calls=sees("Sunny.", "tools", "streamed_tools", tool="Skills-weather"),
        objects=sees(ADA, "structured"),
        second_turns=sees("Ada.", "two_turns"),
    ),
    # Strands Agents: an agent with an `OpenAIResponsesModel`, with and without state on the server.
    # It leaves thoughts out of what it sends back.
    "strands": Client(
        PythonScript("strands_agent.py", environment="openai2"),
        texts=sees({"texts": ["Hello world"], "input": 12}, "text"),
        streams=sees(STREAM, "stream"),
        thoughts=sees(THOUGHT, "thought"),
        calls=sees(["Sunny."], "tools", thought=False),
        repeated_calls=sees(["Sunny."], "tools_with_state"),
        second_turns=[*sees(["Ada."], "two_turns", thought=False), *sees(["Ada."], "two_turns_with_state")],
    ),
    # The AI SDK of Vercel: `ai` with `@ai-sdk/openai`. With `store`, which is its default, it sends references to the items
    # of earlier answers; without, the items themselves.
    "vercel_ai": Client(
        NodeScript("vercel_ai.mjs"),
        texts=sees({**TEXT, "output": 5}, "text"),
        streams=sees(STREAM, "stream"),
        cut_off=sees({"text": "Hello", "finishReason": "length"}, "cut"),
        broken=sees({**FAILED, "errors": [FAILURE]}, "broken"),
        calls=[
            *sees(SUNNY, "toolLoop", "toolLoopStateless"),
            *sees({"reasoning": THOUGHT, **SUNNY}, "streamedToolLoop", "streamedToolLoopStateless"),
        ],
        objects=sees(ADA, "object"),
        second_turns=[
            *sees([{"text": "Hello, Ada.", "reasoning": THOUGHT}, {"text": "Ada."}], "twoTurns", "twoTurnsStateless"),
            *sees("Ada.", "continued"),
        ],
        shells=sees("Done.", "shell"),
        patches=sees("Done.", "patch"),
        **HOSTED_MCP,
    ),
    # The same over Chat Completions: with `.chat()`, and with `@ai-sdk/openai-compatible`, which knows thoughts.
    "vercel_ai_chat": Client(
        NodeScript("vercel_ai_chat.mjs"),
        texts=sees({**TEXT, "output": 5}, "chat.text", "compatible.text"),
        streams=sees(STREAM, "chat.stream", "compatible.stream"),
        cut_off=sees({"text": "Hello", "finishReason": "length"}, "chat.cut", "chat.cutWithTools", "compatible.cutWithTools"),
        broken=[
            *sees({**FAILED, "errors": [PASSED_FAILURE]}, "chat.broken"),
            *sees({**FAILED, "errors": [FAILURE]}, "chat.brokenWithTools", "compatible.brokenWithTools"),
        ],
        thoughts=sees({"reasoning": THOUGHT, "text": "Hello, Ada."}, "compatible.thought"),
        calls=[
            *sees(SUNNY, "chat.toolLoop", "chat.streamedToolLoop", thought=False),
            *sees(SUNNY, "compatible.toolLoop", "compatible.streamedToolLoop"),
        ],
        forced_calls=sees(PARIS, "chat.required", "chat.named", "compatible.named"),
        objects=sees(ADA, "chat.object", "chat.objectStreamed", "compatible.object", "compatible.objectStreamed"),
        second_turns=[*sees("Ada.", "chat.twoTurns", thought=False), *sees("Ada.", "compatible.twoTurns")],
        on_weak_engine=True,
    ),
    # The same with `@ai-sdk/anthropic`.
    "vercel_ai_anthropic": Client(
        NodeScript("vercel_ai_anthropic.mjs"),
        texts=sees({**TEXT, "output": 5}, "text", "textStreamed"),
        streams=sees(STREAM, "stream"),
        cut_off=sees({"text": "Hello", "finishReason": "length"}, "cut"),
        broken=sees({**FAILED, "errors": [FAILURE]}, "broken"),
        thoughts=sees({"reasoning": THOUGHT, "text": "Hello, Ada."}, "thought"),
        calls=[*sees(SUNNY, "toolLoop"), *sees({"reasoning": THOUGHT, **SUNNY}, "streamedToolLoop")],
        objects=sees(ADA, "object"),
        second_turns=sees("Ada.", "twoTurns"),
    ),
    # Version 6 of the AI SDK, which many still use.
    "vercel_ai_6": Client(
        NodeScript("vercel_ai_6.mjs"),
        texts=sees(TEXT, "text"),
        streams=sees(STREAM, "stream"),
        calls=sees(SUNNY, "toolLoop", "toolLoopStateless"),
        objects=sees(ADA, "object"),
        **HOSTED_MCP,
    ),
}
