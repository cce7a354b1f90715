"""The known engines, each as the plain dialect with its differences. A line that differs has its reason beside it.

The facts are read from the engines' sources (llama.cpp b21e4de, vLLM a014e35, LMDeploy 1263d5c, SGLang cce0a12,
Ollama fb30760) and from recorded streams.
"""

from msgspec import structs

from antiphon.core.knowledge.dialect import EFFORTS, Detokenizer, Dialect, LoadSource, Lookup, Sign, Template, Tokenizer

PLAIN = Dialect(name="plain")

# Capability → what a chat template has to do for it.
_TEMPLATES = {
    "system role": "that always shows the system message",
    "user messages in a row": "that accepts them",
    "first message": "that accepts any",
    "tools": "that shows tools, calls and results",
    "call ids": "that accepts any",
    "parallel calls": "that has several calls in a message",
    "text beside calls": "that shows both",
    "earlier reasoning": "that shows reasoning_content",
}


def _with_template(flags: str) -> dict[str, str]:
    return {capability: f"{flags}, with a template {need}" for capability, need in _TEMPLATES.items()}


LLAMACPP = structs.replace(
    PLAIN,
    name="llamacpp",
    signs=(Sign("/v1/models", "data/0/owned_by", "llamacpp"), Sign("/props", "default_generation_settings")),
    reasoning_member="reasoning_content",
    # "none" switches thinking off; the others are passed to the template unchanged.
    efforts={effort: effort for effort in EFFORTS},
    max_tokens_member="max_completion_tokens",
    # logprobs + tools + stream is a 400.
    takes_logprobs_with_tools=False,
    takes_top_k=True,
    continues_last_message=True,
    no_thinking={"reasoning_effort": "none"},
    # A grammar is made from the schema. It also constrains answers with tools, which stay in the prompt, but allows no calls.
    # "required" is not enforced, and a named choice silently becomes "auto".
    constrains_json=True,
    calls_when_constrained=False,
    keeps_connections=False,
    tokenizer=Tokenizer("/tokenize", "content", "tokens"),
    window=(Lookup("/props", "default_generation_settings/n_ctx"), Lookup("/v1/models", "data/{at}/meta/n_ctx_train")),
    vision=(Lookup("/props", "modalities/vision"),),
    slots=(Lookup("/props", "total_slots"),),
    parameters=(Lookup("/v1/models", "data/{at}/meta/n_params"),),
    vocabulary=(Lookup("/v1/models", "data/{at}/meta/n_vocab"),),
    embedding=(Lookup("/v1/models", "data/{at}/meta/n_embd"),),
    # Without -m it is a router, which loads a model for any request that names it, even to render a prompt.
    loading_state=(Lookup("/v1/models", "data/{at}/status/value"),),
    version=(Lookup("/props", "build_info"),),
    # 503 while it loads a model.
    health="/health",
    # The first with --metrics only, the second unless it was started with --no-slots.
    load=(
        LoadSource("/metrics", "llamacpp:requests_processing", "llamacpp:requests_deferred"),
        LoadSource("/slots", "is_processing", is_list=True),
    ),
    template=Template("/apply-template", "prompt"),
    template_text=(Lookup("/props", "chat_template"),),
    grammar_member="grammar",
    reported_tools=(Lookup("/props", "chat_template_caps/supports_tools"),),
    reported_parallel_calls=(Lookup("/props", "chat_template_caps/supports_parallel_tool_calls"),),
    advice={
        **_with_template("--jinja --chat-template-file FILE"),
        "reasoning": "--jinja --chat-template-file FILE, with a template that has reasoning_content",
        "images": "--mmproj FILE",
        "context window": "-c N, which all slots (-np) share",
    },
    # With this format reasoning arrives in a separate field, whatever --reasoning-format the server was started with.
    extra={"reasoning_format": "deepseek"},
    unparsed_extra={"reasoning_format": "none"},
    # A chunk for each batch of the prompt (2048 tokens), and one before the first. A version that does not know it ignores it.
    reports_progress=True,
    # Inside a string a grammar allows any text, and a weak model may repeat itself without end. Repeating more than 24 tokens
    # of the last 256 becomes less and less likely; copying from further back is not affected.
    constrained_extra={"dry_multiplier": 0.8, "dry_allowed_length": 24, "dry_penalty_last_n": 256},
)

VLLM = structs.replace(
    PLAIN,
    name="vllm",
    signs=(Sign("/v1/models", "data/0/owned_by", "vllm"),),
    # The old name, reasoning_content, is read but no longer written.
    reasoning_member="reasoning",
    # Sets enable_thinking; gpt-oss accepts only these.
    efforts={**PLAIN.efforts, "none": "none"},
    # The names that templates have for it.
    no_thinking={"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
    max_tokens_member="max_completion_tokens",
    takes_top_k=True,
    enforces_required=True,
    enforces_named=True,
    constrains_json=True,
    # With `strict: true`; otherwise the arguments are any JSON object.
    constrains_calls=True,
    # Ignored by the engine, which takes any field (serve/engine/protocol.py); a router in front of several may use it.
    cache_key_member="prompt_cache_key",
    tokenizer=Tokenizer("/tokenize", "prompt", "tokens"),
    window=(Lookup("/v1/models", "data/{at}/max_model_len"),),
    version=(Lookup("/version", "version"),),
    # It processes requests together: a few more at once slow one another down little.
    room=8,
    # 503 once its engine process is dead.
    health="/health",
    # The second name of the cache's is that before 0.10.
    load=(
        LoadSource(
            "/metrics",
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ),
    ),
    # It takes messages too, and then applies the template. A tool_choice that chat requests are rejected for is ignored.
    template=Template("/tokenize", "tokens", Detokenizer("/detokenize", "prompt"), reads_all_fields=False),
    advice={
        **_with_template("--chat-template FILE"),
        "tool calls": "--enable-auto-tool-choice --tool-call-parser NAME",
        "reasoning": "--reasoning-parser NAME, for a model that thinks",
        "cached tokens": "--enable-prompt-tokens-details",
        "context window": "--max-model-len N",
    },
)

LMDEPLOY = structs.replace(
    PLAIN,
    name="lmdeploy",
    signs=(Sign("/v1/models", "data/0/owned_by", "lmdeploy"),),
    reasoning_member="reasoning_content",
    # Only low, medium, high and max are known; others are a 400.
    efforts={**PLAIN.efforts, "xhigh": "max", "max": "max"},
    no_thinking={"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
    max_tokens_member="max_completion_tokens",
    takes_top_k=True,
    # Fields that it does not know are ignored (serve/openai/protocol.py); a router in front of several may use it.
    cache_key_member="prompt_cache_key",
    constrains_json=True,
    tokenizer=Tokenizer("/v1/encode", "input", "input_ids"),
    window=(Lookup("/v1/models", "data/{at}/max_model_len"),),
    # It processes requests together: a few more at once slow one another down little.
    room=8,
    health="/health",
    advice={
        "tools": "--tool-call-parser NAME",
        "tool calls": "--tool-call-parser NAME",
        "reasoning": "--reasoning-parser NAME, for a model that thinks",
        "logprobs": "--logprobs-mode raw_logprobs",
        "context window": "--session-len N",
    },
)

SGLANG = structs.replace(
    PLAIN,
    name="sglang",
    signs=(Sign("/v1/models", "data/0/owned_by", "sglang"), Sign("/get_server_info", "tp_size")),
    reasoning_member="reasoning_content",
    efforts={effort: effort for effort in EFFORTS},
    # The names that templates have for it.
    no_thinking={"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
    max_tokens_member="max_completion_tokens",
    takes_top_k=True,
    enforces_required=True,
    enforces_named=True,
    constrains_json=True,
    # Fields that it does not know are ignored (entrypoints/openai/protocol.py); a router in front of several may use it.
    cache_key_member="prompt_cache_key",
    window=(Lookup("/v1/models", "data/{at}/max_model_len"), Lookup("/get_model_info", "max_total_num_tokens")),
    version=(Lookup("/get_server_info", "version"),),
    # It processes requests together: a few more at once slow one another down little.
    room=8,
    # Not /health: it generates a token.
    health="/v1/models",
    # With --enable-metrics only.
    load=(LoadSource("/metrics", "sglang:num_running_reqs", "sglang:num_queue_reqs", ("sglang:token_usage",)),),
    advice={
        **_with_template("--chat-template FILE"),
        "tool calls": "--tool-call-parser NAME",
        "reasoning": "--reasoning-parser NAME, for a model that thinks",
        "cached tokens": "--enable-cache-report",
        "context window": "--context-length N",
    },
)

OLLAMA = structs.replace(
    PLAIN,
    name="ollama",
    signs=(Sign("/api/version", "version"),),
    reasoning_member="reasoning",
    # An effort that it does not know is a 400.
    efforts={**PLAIN.efforts, "none": "none", "xhigh": "max", "max": "max"},
    no_thinking={"reasoning_effort": "none"},
    continues_last_message=True,
    constrains_json=True,
    loads_on_demand=True,
    window=(Lookup("/api/show", "model_info/*.context_length", asks="model"),),
    parameters=(Lookup("/api/show", "model_info/general.parameter_count", asks="model"),),
    vision=(Lookup("/api/show", "capabilities/vision", asks="model"),),
    version=(Lookup("/api/version", "version"),),
    health="/api/version",
    reported_tools=(Lookup("/api/show", "capabilities/tools", asks="model"),),
    reported_reasoning=(Lookup("/api/show", "capabilities/thinking", asks="model"),),
    advice={
        "tools": "a model whose `ollama show` lists the capability tools",
        "tool calls": "a model whose `ollama show` lists the capability tools",
        "images": "a model whose `ollama show` lists the capability vision",
        "context window": "OLLAMA_CONTEXT_LENGTH=N",
    },
)

LMSTUDIO = structs.replace(
    PLAIN,
    name="lmstudio",
    signs=(Sign("/api/v0/models", "data/0/compatibility_type"), Sign("/v1/models", "data/0/owned_by", "organization_owner")),
    reasoning_member="reasoning_content",
    takes_top_k=True,
    window=(
        Lookup("/api/v0/models", "data/{at}/loaded_context_length"),
        Lookup("/api/v0/models", "data/{at}/max_context_length"),
    ),
    constrains_json=True,
    loads_on_demand=True,
    # Contains llama.cpp, which continues a last assistant message.
    continues_last_message=True,
    advice={"context window": "the context length in the model's settings, before it is loaded"},
)

# In the order of detection: the more specific signs first.
KNOWN: tuple[Dialect, ...] = (LLAMACPP, VLLM, LMDEPLOY, SGLANG, LMSTUDIO, OLLAMA)
BY_NAME: dict[str, Dialect] = {dialect.name: dialect for dialect in (PLAIN, *KNOWN)}
