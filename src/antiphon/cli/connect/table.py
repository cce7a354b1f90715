"""The clients that `antiphon connect` knows, one row each."""

from collections.abc import Mapping

from antiphon.cli.connect.applications import APPLICATIONS
from antiphon.cli.connect.client import Client
from antiphon.cli.connect.node_packages import NODE_PACKAGES
from antiphon.cli.connect.python_packages import PYTHON_PACKAGES

CLIENTS: Mapping[str, Client] = {client.name: client for client in (*APPLICATIONS, *PYTHON_PACKAGES, *NODE_PACKAGES)}
