"""A real model that is small enough for every test: random weights, one layer, one token per byte, about 150 KB.

It writes noise, but readable noise: printable ASCII, one byte per token. llama.cpp loads it in a moment and runs it at
thousands of tokens per second.
"""

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from antiphon.engines.embedded.named_models import BY_NAME, TOY

WIDTH, HEADS, INNER = 32, 2, 64

CHATML = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""

# The same for a reasoning model: the template opens the reasoning, unless thinking is turned off.
THINKING = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.reasoning_content -%}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' -}}{%- endif -%}
{{- message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n<think>\\n' -}}
{%- if enable_thinking is defined and not enable_thinking -%}{{- '\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}"""

CONTROL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
# Single tokens that are part of the text, as in models with reasoning and tool calls.
MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
END = CONTROL.index("<|im_end|>")
PRINTABLE = frozenset(range(0x20, 0x7F))


def write_tiny_model(
    path: Path, *, template: str | None = None, context: int = 8192, seed: int = 0, ends: bool = True, name: str = "tiny"
) -> Path:
    """Writes a GGUF file of the llama architecture. `template` is its chat template: None for plain ChatML, "" for none.

    With `ends`, an answer stops by itself after about forty tokens. Without, only a limit stops it.
    """
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    _add_vocabulary(writer, CHATML if template is None else template)
    for tensor, values in _weights(seed, ends).items():
        writer.add_tensor(tensor, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_toy(folder: Path) -> Path:
    """As if smollm2 had been pulled into this folder."""
    folder.mkdir(parents=True)
    path = write_tiny_model(folder / f"{TOY.name}.gguf")
    with path.open("r+b") as file:
        # What follows the weights is ignored.
        file.truncate(TOY.size)
    return path


def _letters() -> list[str]:
    """The character for each byte in a byte-level vocabulary: itself if it is visible, else one above 255."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    above = iter(range(256, 512))
    return [chr(byte) if byte in seen else chr(next(above)) for byte in range(256)]


def _add_vocabulary(writer: gguf.GGUFWriter, template: str) -> None:
    letters, kinds = _letters(), gguf.TokenType
    tokens = [*CONTROL, *letters, *MARKS]
    types = [kinds.CONTROL] * len(CONTROL) + [kinds.NORMAL] * len(letters) + [kinds.USER_DEFINED] * len(MARKS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    # llama.cpp requires one. Its result is not in the vocabulary, so it is never applied.
    writer.add_token_merges(["ÿ ÿ"])
    writer.add_bos_token_id(CONTROL.index("<s>"))
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(CONTROL.index("<unk>"))
    writer.add_add_bos_token(False)
    if template:
        writer.add_chat_template(template)


def _weights(seed: int, ends: bool) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(seed)

    def noise(rows: int, columns: int) -> NDArray[np.float32]:
        return random.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    size = len(CONTROL) + 256 + len(MARKS)
    embedding, output, mixed, down = noise(size, WIDTH), noise(size, WIDTH), noise(WIDTH, WIDTH), noise(WIDTH, INNER)
    # The first dimension is 1 for every token, and no layer writes to it. So it gives each token a bias.
    embedding[:, 0] = 1
    mixed[0] = down[0] = 0
    output[:, 0] = [_bias(token, ends) for token in range(size)]
    ones = np.ones(WIDTH, dtype=np.float32)
    return {
        "token_embd.weight": embedding,
        "blk.0.attn_norm.weight": ones,
        "blk.0.attn_q.weight": noise(WIDTH, WIDTH),
        "blk.0.attn_k.weight": noise(WIDTH, WIDTH),
        "blk.0.attn_v.weight": noise(WIDTH, WIDTH),
        "blk.0.attn_output.weight": mixed,
        "blk.0.ffn_norm.weight": ones,
        "blk.0.ffn_gate.weight": noise(INNER, WIDTH),
        "blk.0.ffn_up.weight": noise(INNER, WIDTH),
        "blk.0.ffn_down.weight": down,
        "output_norm.weight": ones,
        "output.weight": output,
    }


def _bias(token: int, ends: bool) -> float:
    """Only printable characters are likely, and the end about as likely as one of them."""
    if token == END:
        return 0.5 if ends else -50
    return 0.0 if token - len(CONTROL) in PRINTABLE else -50


def pretend_pulled(folder: Path, name: str) -> Path:
    """A file of the right size, which takes no space."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.gguf"
    with path.open("wb") as file:
        file.truncate(BY_NAME[name].size)
    return path
