"""The programs of docs/recipes.md: what the engine answers to each, and what each must show, in Python and in JavaScript."""

from collections.abc import Mapping
from typing import Any

from support.doc_blocks import ROOT, blocks
from support.doc_programs import PLOT, Script
from support.engine import answer, call, chunk, text


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


RECIPES: Mapping[str, Script] = {
    "Stream": Script([text("Once ", "upon a time.")], "Once upon a time.\n5 tokens\n"),
    "Structured output": Script([text('{"name": "Ada", ', '"age": 36}')], "Ada 36\n"),
    "Function tools in a loop": Script(
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
    "Several at once": Script(
        capital,
        "What is the capital of France? Paris\nWhat is the capital of Italy? Rome\nWhat is the capital of Spain? Madrid\n",
    ),
    "Conversation": Script(
        [text("Hello, Ada."), lambda body: text("Ada" if len(body["messages"]) == 3 else "I do not know.")],
        "Hello, Ada.\nAda\n4 items are stored\n",
    ),
    "Background and resume": Script([text("Once ", "upon ", "a time.")], "Once upon a time.\ncompleted\n"),
    "File search with citations": Script(
        [
            answer(call("file_search", '{"queries": ["clean the filter"]}'), finish="tool_calls"),
            text("With warm water [1]."),
        ],
        "With warm water.\n  manual.txt, at character 15\n",
    ),
    "Code interpreter with a plot": Script(
        [answer(call("python", f'{{"code": "{PLOT}"}}'), finish="tool_calls"), text("Here it is.")],
        f"Here it is.\n{PLOT}\nsaved plot.png\n",
    ),
    "MCP with approval": Script(
        [answer(call("adding__add", '{"a": 2, "b": 40}'), finish="tool_calls"), text("It is 42.")],
        'approved: add {"a": 2, "b": 40}\nIt is 42.\n',
        adds=True,
    ),
    "Web search": Script(
        [answer(call("web_search", '{"query": "capital of Italy"}'), finish="tool_calls"), text("It is Rome [1].")],
        "It is Rome ([docs.example.com](https://docs.example.com/a)).\n  The first page: https://docs.example.com/a\n",
    ),
    "Embeddings": Script([], "0.4\\d a kitten on a rug\n-?0.0\\d the price of oil\n", is_pattern=True),
    "Batch": Script(capital, "France Paris\nItaly Rome\n"),
    "An image": Script(seen, "A dot.\n"),
    "A PDF": Script(summary, "Sales went up.\n"),
    "Reasoning": Script(
        [answer(chunk({"reasoning_content": "91 = 7 · 13"}), chunk({"content": "No."}), finish="stop")],
        "thought: 91 = 7 · 13\nNo.\n",
    ),
}


def programs(language: str) -> dict[str, str]:
    """By recipe."""
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8").splitlines()

    def section(line: int) -> str:
        return next(each.removeprefix("## ") for each in reversed(page[:line]) if each.startswith("## "))

    return {section(each.line): each.text for each in blocks() if each.page == "docs/recipes.md" and each.language == language}
