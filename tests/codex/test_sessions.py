"""Long and interrupted sessions: compaction, resumption, a full context, an engine that dies."""

import pytest
from support.codex import Codex, calls, shell
from support.engine import CUT, DONE, MockEngine, Refusal, Writer, chunk, text

pytestmark = pytest.mark.timeout(120, func_only=True)

TOO_LONG = {
    "error": {
        "code": 400,
        "message": "request (40000 tokens) exceeds the available context size (32768 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 40000,
        "n_ctx": 32768,
    }
}


# A provider of that name is asked for a compaction item; any other is asked for a summary in a turn of its own.
# A compaction item also has the task and the newest step towards it.
@pytest.mark.parametrize(
    ("provider", "kept"), [("Antiphon", []), ("OpenAI", ["user", "user", "assistant", "tool"])], ids=["Antiphon", "OpenAI"]
)
async def test_a_history_that_is_too_long_is_compacted(
    codex: Codex, engine: MockEngine, provider: str, kept: list[str]
) -> None:
    codex.config["model_providers.gateway.name"] = provider
    codex.config["model_auto_compact_token_limit"] = 6000
    usage = chunk(usage={"prompt_tokens": 20000, "completion_tokens": 5, "total_tokens": 20005})
    engine.will(
        b"".join([shell("echo hi > hello.txt"), chunk(finish="tool_calls"), usage, DONE]),
        text("hello.txt was made."),
        text("All done."),
    )
    run = await codex.does("Create hello.txt")
    assert (codex.repository / "hello.txt").read_text() == "hi\n"
    assert run.last_message == "All done."
    assert "context compacted" in run.output
    work, compaction, onward = engine.requests
    assert "tools" in work
    assert "tools" not in compaction
    assert "tools" in onward
    summary = onward["messages"][-1 - len(kept)]
    assert "hello.txt was made." in str(summary["content"])
    assert [message["role"] for message in onward["messages"][len(onward["messages"]) - len(kept) :]] == kept
    assert any("tool_calls" in message for message in onward["messages"]) is bool(kept)


async def test_a_session_is_resumed_with_its_history(codex: Codex, engine: MockEngine) -> None:
    engine.will(calls(chunk({"reasoning_content": "Easy."}), shell("echo hi > hello.txt")), text("It is there."))
    await codex.does("Create hello.txt")
    before = engine.last["messages"]
    engine.will(text("You asked for hello.txt."))
    run = await codex.does("resume", "--last", "What did I ask for?")
    assert run.last_message == "You asked for hello.txt."
    assert engine.last["messages"][: len(before)] == before
    answer, question = engine.last["messages"][len(before) :]
    assert answer == {"role": "assistant", "content": "It is there."}
    assert question == {"role": "user", "content": "What did I ask for?"}


async def test_a_full_context_is_reported_and_not_retried(codex: Codex, engine: MockEngine) -> None:
    engine.will(*[Refusal(400, TOO_LONG)] * 9)
    run = await codex.run("Read everything")
    assert run.code != 0
    assert "ran out of room in the model's context window" in run.output
    assert "exceed_context_size_error" not in run.output
    assert "Reconnecting" not in run.output
    assert len(engine.requests) == 1


async def test_an_engine_that_dies_in_an_answer_is_asked_again(codex: Codex, engine: MockEngine) -> None:
    async def die(write: Writer) -> None:
        await write(chunk({"role": "assistant", "content": "I shall "}))
        await write(CUT)

    engine.will(die, calls(shell("echo hi > hello.txt")), text("It is there."))
    run = await codex.run("Create hello.txt")
    assert run.code == 0, run.output
    assert (codex.repository / "hello.txt").read_text() == "hi\n"
    assert run.last_message == "It is there."
    assert len(engine.requests) == 3
