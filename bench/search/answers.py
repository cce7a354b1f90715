"""Answers that a model gives to the requests which a search makes of it: asked for on one machine, and used on another.

`python -m bench.search --record FILE` writes the requests. Where the model is, `python -m bench.search.answers --engine URL
--requests FILE --out FILE` has them answered; this module needs aiohttp alone. `python -m bench.search --answers FILE` then
measures as if the model were there. An answer often leads to another request, so this is done until none is missing.

Both files are JSON lines. A request has a key, the hash of its body; an answer has the same key, a status and the text of the
engine's answer, stream or not, as it came.
"""

import argparse
import asyncio
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

CONCURRENCY = 32
# Of one answer.
SECONDS = 300.0
# Of those that come in a while, to be seen.
REPORTED = 50


class Recorded(NamedTuple):
    status: int
    text: str


def key_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def request_line(body: dict[str, Any]) -> str:
    return json.dumps({"key": key_of(body), "body": body}, ensure_ascii=False)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Those that are there. The last one of a program that was killed may be cut off, and is left out."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def read_answers(paths: Iterable[Path]) -> dict[str, Recorded]:
    """By the keys of their requests."""
    return {line["key"]: Recorded(line["status"], line["text"]) for path in paths for line in read_lines(path)}


async def answer_all(engine: str, requests: Path, out: Path, concurrency: int) -> int:
    """Has those answered that `out` has no answer to, and adds the answers to it. How many could not be."""
    there = read_answers([out])
    waiting = [line for line in read_lines(requests) if line["key"] not in there]
    places = asyncio.Semaphore(concurrency)
    # llama-server closes a connection that is not used at once.
    connector = TCPConnector(limit=concurrency, force_close=True)
    with out.open("a", encoding="utf-8") as file:
        async with ClientSession(connector=connector, timeout=ClientTimeout(total=SECONDS)) as client:

            async def answer(line: dict[str, Any]) -> bool:
                async with places:
                    try:
                        async with client.post(f"{engine.rstrip('/')}/v1/chat/completions", json=line["body"]) as answered:
                            got = {"key": line["key"], "status": answered.status, "text": await answered.text()}
                    except (ClientError, TimeoutError) as error:
                        print(f"{line['key'][:12]}: {type(error).__name__}: {error}", flush=True)
                        return False
                if got["status"] != 200:
                    print(f"{line['key'][:12]}: status {got['status']}: {got['text'][:300]}", flush=True)
                    return False
                file.write(json.dumps(got, ensure_ascii=False) + "\n")
                file.flush()
                return True

            failed = 0
            # In their order: `as_completed` would begin them in any.
            tasks = [asyncio.create_task(answer(line)) for line in waiting]
            for number, each in enumerate(asyncio.as_completed(tasks), 1):
                failed += not await each
                if number % REPORTED == 0 or number == len(waiting):
                    print(f"{number} of {len(waiting)}", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description="Has the requests that a search makes of a model answered.")
    parser.add_argument("--engine", metavar="URL", required=True, help="without /v1")
    parser.add_argument("--requests", type=Path, required=True, help="what `python -m bench.search --record` has written")
    parser.add_argument("--out", type=Path, required=True, help="the answers are added to it")
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY)
    chosen = parser.parse_args()
    failed = asyncio.run(answer_all(chosen.engine, chosen.requests, chosen.out, chosen.concurrency))
    if failed:
        raise SystemExit(f"{failed} could not be answered: the same command tries them again")


if __name__ == "__main__":
    main()
