"""The head of a GGUF file, read from files that another library wrote."""

from pathlib import Path

import gguf
import pytest
from support.tiny_model import CHATML, write_tiny_model

from antiphon.embedded import CannotEmbed
from antiphon.embedded.gguf_header import read_header


def test_a_models_facts_are_read(tmp_path: Path) -> None:
    header = read_header(write_tiny_model(tmp_path / "tiny.gguf", context=1234))
    assert (header.chat_template, header.context) == (CHATML, 1234)
    assert {"<|im_start|>", "a", "<think>"} <= header.tokens


def test_what_is_not_told_is_none(tmp_path: Path) -> None:
    header = read_header(write_tiny_model(tmp_path / "tiny.gguf", template=""))
    assert header.chat_template is None


def test_every_type_of_value_is_walked_over(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    kinds = gguf.GGUFValueType
    for kind in kinds:
        if kind not in (kinds.STRING, kinds.ARRAY):
            writer.add_key_value(f"x.{kind.name}", True if kind is kinds.BOOL else 1, kind)
    writer.add_array("x.numbers", [1, 2, 3])
    writer.add_array("x.reals", [1.5, 2.5])
    writer.add_array("x.switches", [True, False])
    writer.add_array("x.texts", ["", "é"])
    writer.add_key_value("x.nested", [[1, 2], [3]], kinds.ARRAY, kinds.ARRAY)
    writer.add_chat_template("after all of them")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert read_header(tmp_path / "x.gguf").chat_template == "after all of them"


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGML" + b"\0" * 100, b"GGUF" + b"\xff" * 100, b"a story"])
def test_what_is_no_gguf_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(CannotEmbed, match="is not a GGUF file"):
        read_header(tmp_path / "x.gguf")


def test_a_file_that_ends_in_its_head_is_said_wherever_it_ends(tmp_path: Path) -> None:
    whole = write_tiny_model(tmp_path / "tiny.gguf").read_bytes()
    end_of_head = whole.index(b"tokenizer.chat_template")
    for size in range(0, end_of_head, 97):
        (tmp_path / "x.gguf").write_bytes(whole[:size])
        with pytest.raises(CannotEmbed):
            read_header(tmp_path / "x.gguf")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotEmbed, match="No such file"):
        read_header(tmp_path / "none.gguf")
