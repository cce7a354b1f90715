"""What the result of a call says about it: whether it succeeded, failed, or still runs."""

import pytest

from antiphon.core.prompt.results import Result, result_of

UNUSABLE = "No usable execution environment is available. Wait for an environment to become available before using this tool."
CODEX = "Chunk ID: 2f\nWall time: 0.1 seconds\nProcess exited with code {code}\nOriginal token count: 1\nOutput:\n{output}\n"

# What the tool reports decides.
REPORTED = [
    (CODEX.format(code=1, output="nothing"), Result.FAILED),
    (CODEX.format(code=127, output="sh: x: not found"), Result.FAILED),
    (CODEX.format(code=0, output="3 errors in the log"), Result.SUCCEEDED),
    (CODEX.format(code=0, output="Traceback (most recent call last):"), Result.SUCCEEDED),
    ("Exit code: 1\nWall time: 0 seconds\nOutput:\nthe patch was rejected", Result.FAILED),
    (CODEX.format(code=1, output="Exit code: 0"), Result.FAILED),
    ("Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.", Result.SUCCEEDED),
    ('{"output": "x", "metadata": {"exit_code": 2}}', Result.FAILED),
    ('{"output": "failed", "metadata": {"exit_code": 0}}', Result.SUCCEEDED),
    ('{"error":null,"files":["a"]}', Result.SUCCEEDED),
    ('{"error": "rate limit"}', Result.LOOKS_FAILED),
    ('{"error": {"code": 5}}', Result.LOOKS_FAILED),
    ('{"success": false, "reason": "x"}', Result.LOOKS_FAILED),
    ('{"isError": true, "content": []}', Result.LOOKS_FAILED),
    ('{"status": "failed"}', Result.LOOKS_FAILED),
    ('{"status": "done", "text": "error: none"}', Result.SUCCEEDED),
    ('{"renewed": false}', Result.SUCCEEDED),
    ('[{"title": "Fatal Error", "artist": "Null"}]', Result.SUCCEEDED),
]
WAITING = [
    ("Chunk ID: 1\nWall time: 1 seconds\nProcess running with session ID 7\nOutput:\nerror", Result.WAITS),
    ('{"message":"Wait timed out.","timed_out":true}', Result.WAITS),
    ('{"status": "in_progress"}', Result.WAITS),
]
# Where nothing is reported, the whole of it has to have the form of an error.
ERRORS = [
    ("unsupported call: edit", Result.UNUSABLE),
    (UNUSABLE, Result.UNUSABLE),
    ("Error: Tool `search` is currently unavailable", Result.UNUSABLE),
    ("Unknown tool: search", Result.UNUSABLE),
    *(
        (text, Result.LOOKS_FAILED)
        for text in (
            "write_stdin failed: Unknown process id 7",
            "apply_patch verification failed: invalid patch: The first line of the patch must be '*** Begin Patch'",
            "failed to parse function arguments: missing field `cmd`",
            "cat: a.txt: No such file or directory",
            "cat: x: no such file",
            "bash: foo: command not found",
            "Traceback (most recent call last):\n  …\nValueError: 3",
            "KeyError: 'Rome'",
            "HTTP Error 404: Not Found",
            "Permission denied",
            "Errors: 10",
            "Not found.",
            "The file was not found.",
            "unknown flight",
            "Could not connect to the server",
            "The request timed out.",
        )
    ),
]
WORDS = [
    "Error E7 means that the paper tray is empty.",
    "Ticket 412: the printer shows error E7. Error E7 means that the paper tray is empty. Open since Monday.",
    "Failed: 0, Passed: 3",
    "12 passed, 0 failed",
    "no errors",
    "finished without errors",
    "main.py: error handling was added",
    "log.txt: this tool is not available",
    "There is no usable environment in the list",
    "There is no note of this title.",
    "Unknown Pleasures is an album by Joy Division.",
    "Invalid Date\nis what JavaScript prints",
    "a.py\nb.py",
    "class E(Exception): an error\n" * 40,
    f"{UNUSABLE}\n" * 20,
    "",
]


@pytest.mark.parametrize(
    ("output", "result"), [*REPORTED, *WAITING, *ERRORS, *((words, Result.SUCCEEDED) for words in WORDS)], ids=str
)
def test_what_an_output_says_about_its_call(output: str, result: Result) -> None:
    assert result_of(output) is result


def test_an_item_that_says_that_it_failed_counts_unless_there_is_an_exit_code() -> None:
    assert result_of("The printer is on.", reported=True) is Result.FAILED
    assert result_of(CODEX.format(code=0, output="x"), reported=True) is Result.SUCCEEDED
