"""The command `llm`: with a model of its own at the gateway, and with one of `llm-openai-plugin`."""

import json
import os
from pathlib import Path

from click.testing import CliRunner
from llm.cli import cli
from scenarios import play

WEATHER = 'def weather(city: str) -> str:\n    "The weather of a city"\n    return f"sunny in {city}"\n'
PLUGIN = "openai/gpt-5"  # a model that the plugin has


def settings(url):
    """The plugin takes its settings from the environment."""
    abilities = {"responses": True, "reasoning": True, "supports_schema": True, "supports_tools": True}
    models = [{"model_id": "gateway", "model_name": "mock", "api_base": url, **abilities}]
    Path("extra-openai-models.yaml").write_text(json.dumps(models))  # JSON is YAML
    return {"LLM_USER_PATH": os.getcwd(), "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "any"}


def run(url, *commands):
    """Each command in turn; what the last one wrote."""
    os.environ |= settings(url)
    for arguments in commands:
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
    return {"output": result.stdout, "errors": result.stderr}


def text(url, model="gateway"):
    return run(url, ["-m", model, "-s", "Be brief.", "Hi", "--no-stream"])


def stream(url, model="gateway"):
    return run(url, ["-m", model, "Hi"])


def tools(url, model="gateway"):
    return run(url, ["-m", model, "--functions", WEATHER, "Weather?"])


def schema(url, model="gateway"):
    return json.loads(run(url, ["-m", model, "--schema", "name, age float", "Invent a person."])["output"])


def two_turns(url):
    return run(url, ["-m", "gateway", "My name is Ada."], ["-c", "What is my name?"])


play(
    text,
    stream,
    tools,
    schema,
    two_turns,
    plugin_text=lambda url: text(url, PLUGIN),
    plugin_stream=lambda url: stream(url, PLUGIN),
    plugin_tools=lambda url: tools(url, PLUGIN),
    plugin_schema=lambda url: schema(url, PLUGIN),
)
