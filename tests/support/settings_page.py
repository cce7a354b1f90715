"""The page that lists the settings. Run it to write the page: `python tests/support/settings_page.py`.

What is said of a setting is the comment above it in settings.py.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer.main

from antiphon.cli.commands import app
from antiphon.settings import settings, tables

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

INTRODUCTION = """\
# Settings

Every setting can be given in three ways. A flag overrides the environment, which overrides the file.

| way | example |
| --- | --- |
| a flag of `antiphon serve` | `--port 9000`, `--upstream URL --upstream URL` |
| an environment variable: `ANTIPHON_` and the name in capitals | `ANTIPHON_PORT=9000`, `ANTIPHON_UPSTREAM=URL,URL` |
| a key of the file | `port = 9000`, `upstream = ["URL", "URL"]` |

The file is `antiphon.toml` in the folder where Antiphon is started, or the one that `--config` or `ANTIPHON_CONFIG` names.

A complete file:

```toml
upstream = ["http://127.0.0.1:8080", "http://gpu-1:8000"]
default_model = "qwen3"
key_responses = 8

[keys]
ada = "KEY"

[model_names]
gpt-5 = "qwen3"
```

A value that is not allowed is an error, which names the setting, where it was set and what is allowed; so is an unknown key of
the file. An unknown variable `ANTIPHON_…` is only reported: the environment is shared with other versions and other programs,
and Kubernetes sets such names for a service that is called antiphon.

SIGHUP makes a running gateway read its file again: engines, keys, MCP servers, and the settings that [limits.md](limits.md)
marks count at once, the others after a restart. `python tests/support/settings_page.py` writes this page.
"""


# Tables of the file that have settings of their own: what is said of each, and its class.
GROUPS: dict[str, tuple[str, type]] = {
    "[tools.web_search]": (
        "[Web search](web_search.md). Only the file can have these settings.",
        tables.WebSearchSettings,
    ),
    "[tools.file_search]": (
        "[File search](file_search.md) by a tool of an MCP server. Only the file can have these settings.",
        tables.FileSearchSettings,
    ),
    "[tools.image_generation]": (
        "[Images](tools.md#image-generation) that an MCP server makes. Only the file can have these settings.",
        tables.ImageGenerationSettings,
    ),
    "[vector_stores]": (
        "[File search](file_search.md). Only the file can have these settings.",
        tables.VectorStoreSettings,
    ),
    "[tools.code_interpreter]": (
        "[Code](code_interpreter.md) that an MCP server runs. Only the file can have these settings.",
        tables.CodeInterpreterSettings,
    ),
    "[containers]": (
        "[Containers](code_interpreter.md), in which code of models runs. Only the file can have these settings.",
        tables.ContainerSettings,
    ),
    "[mcp]": ("[MCP servers](mcp.md). Only the file can have these settings.", tables.McpSettings),
    "[mcp.servers.NAME]": (
        'One server. Requests use it by its name: `{"type": "mcp", "server_label": "NAME"}`; `antiphon mcp` lists its tools.',
        tables.McpServerSettings,
    ),
    "[usage]": ("[Usage](teams.md) of each key. Only the file can have these settings.", tables.UsageSettings),
    "[usage.prices.MODEL]": ('What tokens of a model cost; "*" is for all models without a table.', tables.PriceSettings),
    "[usage.budgets.NAME]": (
        '[Budgets](teams.md#budgets): what the key of this name may use; "*" is for each key without a table. Days and months '
        "are those of UTC. Requests that failed or were refused do not count.",
        tables.BudgetSettings,
    ),
    "[batches]": ("[Batches](batches.md) of requests. Only the file can have these settings.", tables.BatchSettings),
    "[webhooks]": ("[Webhooks](webhooks.md). Only the file can have these settings.", tables.WebhookSettings),
    "[webhooks.endpoints.NAME]": ("An endpoint. It needs a `url` and a `secret`.", tables.WebhookEndpointSettings),
    "[files]": ("[Files](files.md) that clients upload. Only the file can have these settings.", tables.FileSettings),
}


class Setting(NamedTuple):
    name: str
    default: str
    meaning: str


def settings_by_part(of: type = settings.Settings) -> dict[str, list[Setting]]:
    """In the order of the source."""
    lines = inspect.getsource(of).splitlines()
    parts: dict[str, list[Setting]] = {}
    part, comment = "", ""
    for line in map(str.strip, lines):
        if heading := re.fullmatch(r"# ---- (.+) ----", line):
            part, comment = heading[1], ""
        elif line.startswith("#"):
            comment = f"{comment} {line.lstrip('# ')}".strip()
        elif field := re.fullmatch(r"(\w+): .+? = (.+)", line):
            parts.setdefault(part, []).append(Setting(field[1], _default(field[2]), comment))
            comment = ""
    return parts


def _default(source: str) -> str:
    """As it is written in the file."""
    if source in ("None", "()", "{}") or source.endswith("Settings()"):
        return "–"
    value = eval(compile(ast.parse(source, mode="eval"), "settings", "eval"))
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def flags() -> dict[str, str]:
    """Setting → the flag of `antiphon serve` that sets it."""
    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {option.name: option.opts[0] for option in serve.params if option.name}


def page() -> str:
    return "\n".join([INTRODUCTION, *_tables()])


def _tables() -> Iterator[str]:
    flag_of = flags()
    for part, found in settings_by_part().items():
        yield f"## {part[0].upper()}{part[1:]}\n"
        yield "| setting | flag | default | meaning |"
        yield "| --- | --- | --- | --- |"
        for name, default, meaning in found:
            flag = f"`{flag_of[name]}`" if name in flag_of else "–"
            yield f"| `{name}` | {flag} | {default} | {meaning.replace('|', '&#124;')} |"
        yield ""
    for name, (words, group) in GROUPS.items():
        yield f"## `{name}`\n\n{words}\n"
        yield "| setting | default | meaning |"
        yield "| --- | --- | --- |"
        for setting in settings_by_part(group)[""]:
            yield f"| `{setting.name}` | {setting.default} | {setting.meaning.replace('|', '&#124;')} |"
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
