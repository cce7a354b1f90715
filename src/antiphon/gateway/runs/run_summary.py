"""What the log says of a response when it has ended. Nothing of what was asked or answered."""

from typing import Any

from antiphon.gateway.runs.run import ResponseRun


def run_summary(run: ResponseRun) -> dict[str, Any]:
    response, engine = run.response, run.engine
    members: dict[str, Any] = {
        "response_id": response.id,
        "model": response.model,
        "engine": engine.root,
        "dialect": engine.dialect.name,
        "stream": run.streams,
        "outcome": response.status,
    }
    if response.usage is not None:
        members |= {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
    if run.first_output is not None:
        members["first_output_seconds"] = round(run.first_output - run.arrived, 4)
    if run.error is not None:
        members["error"] = run.error.code or run.error.kind
    if notices := run.notices:
        members["notices"] = notices
    return members
