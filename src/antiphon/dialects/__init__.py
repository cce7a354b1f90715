"""The engines we know, each the plain dialect with its differences. A line that differs carries the reason.

The facts are read from the engines' sources (llama.cpp b21e4de, vLLM a014e35, LMDeploy 1263d5c, SGLang cce0a12,
Ollama fb30760) and from recorded streams.
"""

from dataclasses import replace

from antiphon.core.dialect import Dialect, Lookup, Sign, Tokenizer

PLAIN = Dialect(name="plain")

LLAMACPP = replace(
    PLAIN,
    name="llamacpp",
    signs=(Sign("/v1/models", "data/0/owned_by", "llamacpp"), Sign("/props", "default_generation_settings")),
    reasoning_member="reasoning_content",
    # "none" switches thinking off; the others reach the template as they are.
    efforts={effort: effort for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max")},
    max_tokens_member="max_completion_tokens",
    # logprobs + tools + stream is a 400.
    takes_logprobs_with_tools=False,
    continues_last_message=True,
    tokenizer=Tokenizer("/tokenize", "content", "tokens"),
    window=(Lookup("/props", "default_generation_settings/n_ctx"), Lookup("/v1/models", "data/{at}/meta/n_ctx_train")),
    vision=(Lookup("/props", "modalities/vision"),),
    version=(Lookup("/props", "build_info"),),
    # Whatever --reasoning-format the server was started with, this one comes out in a field of its own.
    extra={"reasoning_format": "deepseek"},
)

VLLM = replace(
    PLAIN,
    name="vllm",
    signs=(Sign("/v1/models", "data/0/owned_by", "vllm"),),
    # The old name, reasoning_content, is read but no longer written.
    reasoning_member="reasoning",
    # Drives enable_thinking; gpt-oss takes only these.
    efforts={**PLAIN.efforts, "none": "none"},
    max_tokens_member="max_completion_tokens",
    takes_named_choice=True,
    tokenizer=Tokenizer("/tokenize", "prompt", "tokens"),
    window=(Lookup("/v1/models", "data/{at}/max_model_len"),),
    version=(Lookup("/version", "version"),),
)

LMDEPLOY = replace(
    PLAIN,
    name="lmdeploy",
    signs=(Sign("/v1/models", "data/0/owned_by", "lmdeploy"),),
    reasoning_member="reasoning_content",
    # Only low, medium, high and max are known; others are a 400.
    efforts={**PLAIN.efforts, "xhigh": "max", "max": "max"},
    max_tokens_member="max_completion_tokens",
    tokenizer=Tokenizer("/v1/encode", "input", "input_ids"),
    window=(Lookup("/v1/models", "data/{at}/max_model_len"),),
)

SGLANG = replace(
    PLAIN,
    name="sglang",
    signs=(Sign("/v1/models", "data/0/owned_by", "sglang"), Sign("/get_server_info", "tp_size")),
    reasoning_member="reasoning_content",
    efforts={effort: effort for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max")},
    max_tokens_member="max_completion_tokens",
    takes_named_choice=True,
    window=(Lookup("/v1/models", "data/{at}/max_model_len"), Lookup("/get_model_info", "max_total_num_tokens")),
    version=(Lookup("/get_server_info", "version"),),
)

OLLAMA = replace(
    PLAIN,
    name="ollama",
    signs=(Sign("/api/version", "version"),),
    reasoning_member="reasoning",
    # An effort that it does not know is a 400.
    efforts={**PLAIN.efforts, "none": "none", "xhigh": "max", "max": "max"},
    continues_last_message=True,
    window=(Lookup("/api/show", "model_info/*.context_length", asks="model"),),
    vision=(Lookup("/api/show", "capabilities/vision", asks="model"),),
    version=(Lookup("/api/version", "version"),),
)

LMSTUDIO = replace(
    PLAIN,
    name="lmstudio",
    signs=(Sign("/api/v0/models", "data/0/compatibility_type"), Sign("/v1/models", "data/0/owned_by", "organization_owner")),
    reasoning_member="reasoning_content",
    window=(
        Lookup("/api/v0/models", "data/{at}/loaded_context_length"),
        Lookup("/api/v0/models", "data/{at}/max_context_length"),
    ),
    # llama.cpp inside: a last assistant message is a beginning to go on from.
    continues_last_message=True,
)

# In the order in which they are asked for: the more telling signs first.
KNOWN: tuple[Dialect, ...] = (LLAMACPP, VLLM, LMDEPLOY, SGLANG, LMSTUDIO, OLLAMA)
BY_NAME: dict[str, Dialect] = {dialect.name: dialect for dialect in (PLAIN, *KNOWN)}
