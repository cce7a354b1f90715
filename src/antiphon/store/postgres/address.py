"""The URL of a Postgres store as messages show it: where the server is, and never the password. It needs no driver."""

import os
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

# ---- The URL of a Postgres store as messages show it: where the server is, and never the password --------------------

# Of the server, unless the URL or the environment says otherwise.
PORT = "5432"
# Parameters of the URL whose values nobody may see.
SECRET = frozenset({"password", "sslpassword"})


def address_to_words(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """`db.example:5432, database antiphon`. As the driver reads it: what the URL leaves out is in the environment."""
    parts, query = urlsplit(url), dict(parse_qsl(urlsplit(url).query))
    hosts = parts.netloc.rpartition("@")[2] or query.get("host") or environment.get("PGHOST") or ""
    port = query.get("port") or environment.get("PGPORT") or PORT
    servers = ", ".join(_servers(unquote(hosts), port)) or "its default address"
    name = unquote(parts.path.lstrip("/")) or query.get("dbname") or query.get("database") or environment.get("PGDATABASE")
    return f"{servers}, {f'database {name}' if name else 'the default database'}"


def _servers(hosts: str, port: str) -> Iterator[str]:
    """Several are tried in turn. A path is the folder of a Unix socket."""
    for host in filter(None, hosts.split(",")):
        has_port = host.startswith("/") or host.rpartition("]")[2].count(":") == 1
        yield host if has_port else f"{host}:{port}"


def without_password(url: str) -> str:
    """The same address for other programs, which ask for the password themselves."""
    parts = urlsplit(url)
    login, at, hosts = parts.netloc.rpartition("@")
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in SECRET]
    # A path stays readable.
    parameters = f"?{urlencode(query, safe='/')}" if query else ""
    return f"{parts.scheme}://{login.partition(':')[0]}{at}{hosts}{parts.path}{parameters}"
