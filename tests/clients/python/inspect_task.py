"""Inspect: tasks that are evaluated with the Responses API, at once and in the background."""

import json
import os

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ResponseSchema, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import json_schema
from scenarios import Person, play

os.environ["OPENAI_API_KEY"] = "any"
# Without `reasoning_summary`, it asks a question of its own first, to find out whether there are summaries.
OPTIONS = {"reasoning_summary": "auto", "max_retries": 0, "display": "none"}


@tool
def weather():
    async def execute(city: str):
        """The weather of a city.

        Args:
            city: The name of the city.
        """
        return f"sunny in {city}"

    return execute


def evaluate(url, question, *steps, config=None, **model_args):
    os.environ["OPENAI_BASE_URL"] = url
    task = Task(
        dataset=[Sample(input=question, target="Sunny.")],
        solver=[*steps, generate()],
        scorer=includes(),
        config=config or GenerateConfig(),
    )
    model = get_model("openai/mock", responses_api=True, memoize=False, **model_args)
    (log,) = eval(task, model=model, **OPTIONS)
    if log.error:
        raise RuntimeError(log.error.message)
    return log.samples[0]


def text(url, **model_args):
    output = evaluate(url, "Hi", system_message("Be brief."), **model_args).output
    return {"text": output.completion, "input": output.usage.input_tokens}


def tools(url, **model_args):
    sample = evaluate(url, "Weather?", use_tools(weather()), **model_args)
    results = [message.text for message in sample.messages if message.role == "tool"]
    return {"text": sample.output.completion, "results": results, "score": sample.scores["includes"].value}


def cut(url):
    output = evaluate(url, "Hi", config=GenerateConfig(max_tokens=16)).output
    return [output.completion, output.stop_reason]


def structured(url):
    schema = ResponseSchema(name="person", json_schema=json_schema(Person))
    return json.loads(evaluate(url, "Invent a person.", config=GenerateConfig(response_schema=schema)).output.completion)


play(
    text,
    tools,
    cut,
    structured,
    text_in_background=lambda url: text(url, background=True),
    tools_with_store=lambda url: tools(url, responses_store=True),
    tools_in_background=lambda url: tools(url, background=True),
)
