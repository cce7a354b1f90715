"""The extras of the installation: the packages of each, and the words for one that is missing.

Antiphon is in no public index, so an extra is installed from a checkout. A package by itself might come in another version.
"""

from collections.abc import Mapping

# As in pyproject.toml: extra → the packages that it installs.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "embedded": ("huggingface_hub", "pip", "xllamacpp"),
    "hf": ("huggingface_hub",),
    "postgres": ("asyncpg",),
    "pdf": ("pypdf",),
    "files": ("charset-normalizer", "pypdf"),
    "web": ("trafilatura", "lxml_html_clean"),
    "browser": ("playwright",),
    "code": ("matplotlib", "numpy", "pandas"),
    "mcp": ("mcp",),
    "search": ("numpy", "usearch", "wordllama"),
    "otel": ("opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk"),
}


def install_command(extra: str) -> str:
    assert extra in EXTRAS
    return f"pip install '.[{extra}]'"


def missing_extra(what: str, extra: str) -> str:
    """What the operator has to do. `what`: needs the extra."""
    return f"{what} needs the extra {extra}, which is not installed. In a checkout of Antiphon: {install_command(extra)}"
