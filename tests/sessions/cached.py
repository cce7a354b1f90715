"""How much of a recorded session an engine finds in its cache.

`python -m sessions.cached MODEL.gguf` plays it on llama.cpp, through a gateway and at llama.cpp's own `/v1/messages`, with the
line about billing as it was recorded, and with a hash of its own in each request, as version 2.1.150 sends it.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import aiohttp
import gguf
import msgspec
from sessions.session import TURNS, Request, read
from support.gateway import running_gateway
from support.llamacpp import running_llamacpp
from transcripts.differences import Body

from antiphon.engines.embedded.gguf_header import read_header
from antiphon.engines.embedded.weights import template_for

# Changes the line about billing of the request with this number.
Billing = Callable[[str, int], str]
RECORDED, EACH_REQUEST = "as recorded", "with a hash of each request"
BILLINGS: dict[str, Billing] = {
    RECORDED: lambda line, number: line,
    EACH_REQUEST: lambda line, number: f"{line} cch={number:05x};",
}


class Prompt(NamedTuple):
    request: Request
    # In tokens.
    length: int
    cached: int


async def play(
    url: str, requests: Iterable[Request], billing: Billing = BILLINGS[RECORDED], model: str | None = None
) -> list[Prompt]:
    """One after another. Each is answered with one token: what follows is in the recording. `model`: not the recorded one."""
    found = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None)) as client:
        for number, request in enumerate(requests):
            body = with_billing(request.body, billing, number) | {"max_tokens": 1, "stream": False}
            if model is not None:
                body["model"] = model
            async with client.post(f"{url}/v1/messages", data=msgspec.json.encode(body), headers=request.headers) as answer:
                assert answer.status == 200, await answer.text()
                usage = msgspec.json.decode(await answer.read())["usage"]
            cached = usage.get("cache_read_input_tokens") or 0
            found.append(Prompt(request, usage["input_tokens"] + cached, cached))
    return found


def with_billing(body: Body, billing: Billing, number: int) -> Body:
    first, *others = body["system"]
    return body | {"system": [{**first, "text": billing(first["text"], number)}, *others]}


def share(prompts: Iterable[Prompt]) -> float:
    """Of their tokens, those that came from the cache."""
    chosen = list(prompts)
    return sum(each.cached for each in chosen) / sum(each.length for each in chosen)


def of_turns(prompts: Iterable[Prompt], turns: Sequence[int] = range(2, TURNS + 1)) -> list[Prompt]:
    """Of the main conversation. In the first turn, nothing can be in the cache."""
    return [each for each in prompts if each.request.conversation == (1, 0) and each.request.turn in turns]


def another_session(prompts: Iterable[Prompt]) -> Prompt:
    """The first prompt of the second session."""
    return next(each for each in prompts if each.request.session == 2)


def thinned(path: Path, context: int, folder: Path) -> Path:
    """A copy of the model with one layer, and with a window of so many tokens: nobody is interested in what it says."""
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    changed = {f"{architecture}.block_count": 1, f"{architecture}.context_length": context}
    writer = gguf.GGUFWriter(folder / path.name, architecture)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kind, *of_items = field.types
            writer.add_key_value(name, changed.get(name, field.contents()), kind, *of_items[-1:])
    for tensor in reader.tensors:
        if not tensor.name.startswith("blk.") or tensor.name.startswith("blk.0."):
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / path.name


async def measure(path: Path, context: int) -> None:
    template = template_for(read_header(path))
    for words, billing in BILLINGS.items():
        for through_gateway in (True, False):
            with running_llamacpp(path, template=template, context=context, threads=2) as engine:
                if through_gateway:
                    async with running_gateway(engine, probe=True) as gateway:
                        await gateway.probed()
                        prompts = await play(gateway.url, read(), billing)
                else:
                    prompts = await play(engine, read(), billing)
            show("the gateway" if through_gateway else "llama.cpp itself", words, prompts)


def show(way: str, words: str, prompts: Sequence[Prompt]) -> None:
    main = of_turns(prompts, range(1, TURNS + 1))
    turns = [share(of_turns(prompts, [turn])) for turn in range(2, TURNS + 1)]
    lines = [
        f"{way}, the line about billing {words}: {len(main)} prompts of {main[0].length} to {main[-1].length} tokens",
        f"  turns 2 to {TURNS}: {share(of_turns(prompts)):.1%} from the cache; the least: {min(turns):.1%}",
        f"  the first prompt of another session: {share([another_session(prompts)]):.1%}",
    ]
    print("\n".join(lines), flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sessions.cached", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--context", type=int, default=32768, help="of one slot, in tokens. Default: 32768")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(thinned(chosen.model, chosen.context, Path(folder)), chosen.context))


if __name__ == "__main__":
    main()
