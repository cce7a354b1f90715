"""Programs of a terminal, editors and web pages: commands, files and settings for each."""

from typing import Any

from antiphon.cli.connect.client import CHAT, KEY_VARIABLE, MESSAGES, RESPONSES, Client, Facts, ServedModel

PROVIDER = "antiphon"
PROVIDER_NAME = "Antiphon"


def _opencode(package: str, facts: Facts) -> dict[str, Any]:
    key = f"{{env:{KEY_VARIABLE}}}" if facts.key is not None else facts.plain_key
    models = {
        model.name: {"tool_call": True, "limit": {"context": model.window, "output": model.output}} for model in facts.models
    }
    options = {"baseURL": f"{facts.url}/v1", "apiKey": key}
    provider = {PROVIDER: {"npm": package, "options": options, "models": models}}
    return {"model": f"{PROVIDER}/{facts.model.name}", "provider": provider}


def _opencode_responses(facts: Facts) -> dict[str, Any]:
    return _opencode("@ai-sdk/openai", facts)


def _opencode_chat(facts: Facts) -> dict[str, Any]:
    return _opencode("@ai-sdk/openai-compatible", facts)


def _pi(facts: Facts) -> dict[str, Any]:
    def entry(model: ServedModel) -> dict[str, Any]:
        inputs = ["text", "image"] if model.sees_images else ["text"]
        return {"id": model.name, "input": inputs, "contextWindow": model.window, "maxTokens": model.output}

    key = f"${KEY_VARIABLE}" if facts.key is not None else facts.plain_key
    provider = {"baseUrl": f"{facts.url}/v1", "api": "openai-responses", "apiKey": key}
    return {"providers": {PROVIDER: {**provider, "models": [entry(model) for model in facts.models]}}}


def _zed(facts: Facts) -> dict[str, Any]:
    """Zed reads the key from the variable that begins with the provider's name."""

    def entry(model: ServedModel) -> dict[str, Any]:
        can = {"tools": True, "images": model.sees_images, "parallel_tool_calls": True, "prompt_cache_key": False}
        tokens = {"max_tokens": model.window, "max_output_tokens": model.output}
        return {"name": model.name, **tokens, "capabilities": can}

    provider = {"api_url": f"{facts.url}/v1", "available_models": [entry(model) for model in facts.models]}
    return {"language_models": {"openai_compatible": {PROVIDER_NAME: provider}}}


def _vscode(facts: Facts) -> list[Any]:
    def entry(model: ServedModel) -> dict[str, Any]:
        can = {"toolCalling": True, "vision": model.sees_images}
        tokens = {"maxInputTokens": model.window - model.output, "maxOutputTokens": model.output}
        return {"id": model.name, "name": model.name, "url": f"{facts.url}/v1/responses", **can, **tokens}

    provider = {"name": PROVIDER_NAME, "vendor": "customendpoint", "apiType": "responses", "apiKey": facts.plain_key}
    return [{**provider, "models": [entry(model) for model in facts.models]}]


APPLICATIONS = (
    # Their own commands print these.
    Client(name="codex", title="Codex", api=RESPONSES, command="codex"),
    Client(name="claude", title="Claude Code", api=MESSAGES, command="claude"),
    Client(
        name="opencode",
        title="opencode",
        api=RESPONSES,
        language="json",
        config=_opencode_responses,
        place="In `opencode.json`",
        file="opencode.json",
        command="opencode",
    ),
    Client(
        name="opencode-chat",
        title="opencode, Chat Completions",
        api=CHAT,
        language="json",
        config=_opencode_chat,
        place="In `opencode.json`",
        file="opencode.json",
        command="opencode",
    ),
    Client(
        name="copilot",
        title="Copilot CLI",
        api=RESPONSES,
        language="bash",
        command="copilot",
        text="""\
export COPILOT_PROVIDER_BASE_URL=URL/v1 COPILOT_PROVIDER_API_KEY=KEY COPILOT_PROVIDER_WIRE_API=responses
export COPILOT_MODEL=MODEL COPILOT_OFFLINE=true
copilot
""",
    ),
    Client(
        name="qwen-code",
        title="Qwen Code",
        api=CHAT,
        language="bash",
        command="qwen",
        text="""\
export OPENAI_BASE_URL=URL/v1 OPENAI_API_KEY=KEY OPENAI_MODEL=MODEL
qwen
""",
    ),
    Client(
        name="aider",
        title="aider",
        api=CHAT,
        language="bash",
        command="aider",
        text="""\
export OPENAI_API_BASE=URL/v1 OPENAI_API_KEY=KEY
aider --model openai/MODEL
""",
    ),
    Client(
        name="llm",
        title="llm",
        api=RESPONSES,
        language="yaml",
        place="In `extra-openai-models.yaml`, in the folder of `llm logs path`",
        command="llm",
        text="""\
- model_id: antiphon
  model_name: "MODEL"
  api_base: URL/v1
  responses: true
  supports_tools: true
  supports_schema: true
""",
    ),
    Client(
        name="pi",
        title="pi",
        api=RESPONSES,
        language="json",
        config=_pi,
        place="In `~/.pi/agent/models.json`",
        file="~/.pi/agent/models.json",
        command="pi",
        is_tried=False,
    ),
    Client(
        name="cline",
        title="Cline",
        api=CHAT,
        place="In Cline's settings",
        folder="~/.vscode/extensions/saoudrizwan.claude-dev-*",
        is_tried=False,
        text="""\
API Provider:         OpenAI Compatible
Base URL:             URL/v1
API Key:              KEY
Model ID:             MODEL
Context Window Size:  WINDOW
Max Output Tokens:    OUTPUT
""",
    ),
    Client(
        name="continue",
        title="Continue",
        api=CHAT,
        language="yaml",
        place="In `~/.continue/config.yaml`",
        file="~/.continue/config.yaml",
        folder="~/.continue",
        is_tried=False,
        text="""\
name: Antiphon
version: 0.0.1
schema: v1
models:
  - name: "MODEL"
    provider: openai
    model: "MODEL"
    apiBase: URL/v1
    apiKey: "KEY"
    capabilities: [tool_use]
    defaultCompletionOptions:
      contextLength: WINDOW
      maxTokens: OUTPUT
""",
    ),
    Client(
        name="open-webui",
        title="Open WebUI",
        api=CHAT,
        language="bash",
        command="open-webui",
        is_tried=False,
        text="""\
export OPENAI_API_BASE_URL=URL/v1 OPENAI_API_KEY=KEY ENABLE_OLLAMA_API=false
export DEFAULT_MODELS=MODEL
open-webui serve
""",
    ),
    Client(
        name="zed",
        title="Zed",
        api=CHAT,
        language="json",
        config=_zed,
        place=f"In `~/.config/zed/settings.json`. Zed takes the key from the variable {KEY_VARIABLE}",
        file="~/.config/zed/settings.json",
        command="zed",
        folder="~/.config/zed",
        is_tried=False,
    ),
    Client(
        name="vscode",
        title="VS Code",
        api=RESPONSES,
        language="json",
        config=_vscode,
        place="In `chatLanguageModels.json`, which the command *Chat: Manage Language Models* opens",
        command="code",
        is_tried=False,
    ),
)
