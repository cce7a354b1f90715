"""The key that `antiphon codex` sends to a gateway that needs one."""

import asyncio
from hashlib import blake2b
from pathlib import Path

import pytest
from support.commands import ANTIPHON, bare_environment
from support.engine import MockEngine
from support.gateway import running_gateway

HASHED = "blake2b:" + blake2b(b"secret", digest_size=16).hexdigest()


@pytest.mark.parametrize(
    ("keys", "given", "code"),
    [
        ('[keys]\nada = "secret"', {}, 0),
        (f'[keys]\nada = ["{HASHED}", "secret"]', {}, 0),
        (f'[keys]\nada = "{HASHED}"', {"ANTIPHON_CODEX_KEY": "secret"}, 0),
        (f'[keys]\nada = "{HASHED}"', {}, 2),
    ],
)
async def test_a_plain_key_is_sent_or_asked_for(
    engine: MockEngine, tmp_path: Path, keys: str, given: dict[str, str], code: int
) -> None:
    async with running_gateway(engine, keys={"ada": (HASHED,)}) as gateway:
        file = tmp_path / "antiphon.toml"
        file.write_text(f'port = {gateway.url.rpartition(":")[2]}\ndata_dir = "{tmp_path}"\n{keys}')
        command, pipe = [*ANTIPHON, "codex", "--print", "--config", str(file)], asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=bare_environment(**given))
        out, err = await process.communicate()
    assert process.returncode == code, err
    if code == 0:
        assert b'env_key = "ANTIPHON_CODEX_KEY"' in out
    else:
        assert b"Set ANTIPHON_CODEX_KEY to a key" in err
    assert b"secret" not in out + err
