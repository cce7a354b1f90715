"""A conversation with any Chat Completions server, without any framework: one line, one answer.

python examples/terminal_chat.py http://127.0.0.1:8080/v1 [MODEL]
"""

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import msgspec

import antiphon
from antiphon import Ask, CreateResponse, EngineKnowledge, Environment, Exchange, errors, events
from antiphon.core.knowledge import dialects

url, model = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else None)
knowledge = EngineKnowledge(dialects.PLAIN)
environment = Environment(new_id=antiphon.new_id, now=time.time)


def ask(step: Ask) -> Iterator[bytes]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/chat/completions", antiphon.chat_to_bytes(step.chat), headers)
    try:
        with urllib.request.urlopen(request) as answer:
            yield from answer
    except urllib.error.HTTPError as refused:
        raise antiphon.http_answer_to_error(refused.code, refused.read()) from None
    except OSError as broken:
        raise errors.EngineUnavailable(f"The connection to the engine failed: {broken}") from None


history: list[dict[str, Any]] = []
for line in sys.stdin:
    exchange = Exchange(CreateResponse(model=model, input=line, stream=True), [knowledge], environment, history=history)
    for event in map(antiphon.expand, antiphon.run_exchange(exchange, ask)):
        if isinstance(event, events.OutputTextDelta):
            print(event.delta, end="", flush=True)
    print(f"[{exchange.error}]" if exchange.error else "")
    history += [{"role": "user", "content": line}, *msgspec.to_builtins(exchange.response.output)]
