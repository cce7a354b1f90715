"""Reads the headers of GGUF files that another library wrote."""

from pathlib import Path

import gguf
import pytest
from support.tiny_model import CHATML, write_tiny_model

from antiphon.engines.embedded import CannotEmbed
from antiphon.engines.embedded.gguf_header import read_header


def test_the_metadata_is_read(tmp_path: Path) -> None:
    header = read_header(write_tiny_model(tmp_path / "tiny.gguf", context=1234))
    assert (header.chat_template, header.context) == (CHATML, 1234)
    assert {"<|im_start|>", "a", "<think>"} <= header.tokens


def test_missing_metadata_is_none(tmp_path: Path) -> None:
    header = read_header(write_tiny_model(tmp_path / "tiny.gguf", template=""))
    assert header.chat_template is None


def test_values_of_every_type_are_skipped(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    kinds = gguf.GGUFValueType
    for kind in kinds:
        if kind not in (kinds.STRING, kinds.ARRAY):
            writer.add_key_value(f"x.{kind.name}", True if kind is kinds.BOOL else 1, kind)
    writer.add_array("x.numbers", [1, 2, 3])
    writer.add_array("x.floats", [1.5, 2.5])
    writer.add_array("x.booleans", [True, False])
    writer.add_array("x.strings", ["", "é"])
    writer.add_key_value("x.nested", [[1, 2], [3]], kinds.ARRAY, kinds.ARRAY)
    writer.add_chat_template("after all of them")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert read_header(tmp_path / "x.gguf").chat_template == "after all of them"


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGML" + b"\0" * 100, b"GGUF" + b"\xff" * 100, b"a story"])
def test_another_kind_of_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(CannotEmbed, match="is not a GGUF file"):
        read_header(tmp_path / "x.gguf")


def test_a_truncated_header_is_an_error_wherever_it_ends(tmp_path: Path) -> None:
    whole = write_tiny_model(tmp_path / "tiny.gguf").read_bytes()
    end_of_header = whole.index(b"tokenizer.chat_template")
    for size in range(0, end_of_header, 97):
        (tmp_path / "x.gguf").write_bytes(whole[:size])
        with pytest.raises(CannotEmbed):
            read_header(tmp_path / "x.gguf")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CannotEmbed, match="No such file"):
        read_header(tmp_path / "none.gguf")
