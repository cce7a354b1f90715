"""The commands in the documents: where each of them is run, or why it is not."""

from collections import Counter
from collections.abc import Sequence

from support.doc_blocks import Command, commands

COMMANDS: Sequence[Command] = tuple(commands())

# The only reasons for which a command is not run.
DOCKER = "needs Docker"
DOWNLOADS = "downloads a gigabyte or more"
ROUTER = "starts a router, which needs engines on machines with GPUs"
TERMINAL = "is a program of a terminal that runs until its user leaves; tests/codex and tests/clients run it"

NOT_RUN: dict[str, str] = {
    "antiphon pull": DOWNLOADS,
    "antiphon pull qwen2.5-coder-1.5b": DOWNLOADS,
    "antiphon --model qwen2.5-coder-1.5b": DOWNLOADS,
    "antiphon codex": TERMINAL,
    "antiphon codex --full": TERMINAL,
    "antiphon codex resume ID": TERMINAL,
    "antiphon claude": TERMINAL,
    "antiphon claude --continue": TERMINAL,
    "antiphon claude --full": TERMINAL,
    "claude": TERMINAL,
    "copilot": TERMINAL,
    "qwen": TERMINAL,
    "aider --model openai/MODEL": TERMINAL,
    "vllm-router --port 8001 --service-discovery static --static-backends http://gpu1:8000,http://gpu2:8000      "
    "--static-models MODEL,MODEL --routing-logic session --session-key x-session-id": ROUTER,
    "smg --worker-urls http://gpu1:8000 http://gpu2:8000 --policy cache_aware --routing-key-override": ROUTER,
    "python -m dynamo.frontend --http-port 8000 --router-mode kv --router-session-affinity-ttl-secs 600": ROUTER,
    "docker build -f deploy/Dockerfile -t antiphon .": DOCKER,
    "docker build -f deploy/Dockerfile -t antiphon --build-arg EXTRAS=all .": DOCKER,
    "docker compose -f deploy/compose.yaml up --build": DOCKER,
    "make test": "runs these tests",
    "docker compose -f deploy/compose.yaml --profile code up --build": DOCKER,
}
# The test that runs it.
RUN_ELSEWHERE: dict[str, str] = {
    "make serve": "tests/e2e/test_fresh_clone.py",
    "pip install '.[all]'": "release/clean_environment.py",
    "pip install .": "release/clean_environment.py",
    "uv tool install '.[all]'": "tests/release/test_installers.py",
    "pipx install '.[all]'": "tests/release/test_installers.py",
    'antiphon codex exec -s workspace-write "Fix the tests"': "tests/codex/test_command.py",
    'antiphon claude -p "What does this program do?"': "tests/clients/test_claude_code.py",
}
# Labels of blocks that a test of their own runs, by page.
LABELS_RUN_ELSEWHERE = {"docs/backup.md": "tests/release/test_backup.py"}


def where_else(command: Command) -> str | None:
    return RUN_ELSEWHERE.get(command.text) or (LABELS_RUN_ELSEWHERE.get(command.block.page) if command.block.label else None)


def is_run_here(command: Command) -> bool:
    return command.text not in NOT_RUN and where_else(command) is None


def counted() -> Counter[str]:
    """How many commands are run, and how many are not, for each reason."""
    return Counter(
        NOT_RUN.get(command.text) or ("run by another test" if where_else(command) else "run as they are")
        for command in COMMANDS
    )
