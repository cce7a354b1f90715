"""Plays a scenario for each line of the input, {"scenario", "url"} and what else it needs, and writes what it saw as JSON."""

import asyncio
import inspect
import json
import os
import sys
import traceback

from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: float


def play(*scenarios, **named):
    named |= {scenario.__name__: scenario for scenario in scenarios}
    with os.fdopen(os.dup(1), "w") as results, asyncio.Runner() as runner:
        os.dup2(2, 1)  # for what a client prints
        for line in sys.stdin:
            order = json.loads(line)
            try:
                saw = named[order.pop("scenario")](**order)
                outcome = {"saw": runner.run(saw) if inspect.iscoroutine(saw) else saw}
            except Exception:
                outcome = {"error": traceback.format_exc()}
            print(json.dumps(outcome), file=results, flush=True)
