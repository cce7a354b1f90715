"""Values of settings that mean the same in several tables."""

import pytest

from antiphon.settings.errors import SettingsError
from antiphon.settings.groups import check_hosts, fill_variables

ENVIRONMENT = {"TOKEN": "s3cret", "EMPTY": ""}


@pytest.mark.parametrize(
    ("value", "filled"),
    [
        ("$TOKEN", "s3cret"),
        ("${TOKEN}", "s3cret"),
        ("Bearer ${TOKEN}", "Bearer s3cret"),
        ("$EMPTY", ""),
        ("plain", "plain"),
        ("a$TOKEN", "a$TOKEN"),
        ("", ""),
    ],
)
def test_secrets_come_from_the_environment(value: str, filled: str) -> None:
    assert fill_variables("a.key", value, ENVIRONMENT) == filled


@pytest.mark.parametrize("value", ["$OTHER", "${OTHER}", "${TOKEN} ${OTHER}"])
def test_a_variable_that_is_not_set_is_named_without_a_secret(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^a\.key needs the environment variable OTHER, which is not set$"):
        fill_variables("a.key", value, ENVIRONMENT)


@pytest.mark.parametrize("host", ["tools.example.com", "10.0.0.5:8000", "*.example.com", "10.1.0.0/16", "fd00::/8", "[::1]:80"])
def test_hosts_and_networks_may_be_listed(host: str) -> None:
    check_hosts("a.hosts", [host])


@pytest.mark.parametrize("host", ["", "https://wiki/", "10.1.0.0/99", "ada@wiki", "a b"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match=r"^a\.hosts must be hosts or networks, such as"):
        check_hosts("a.hosts", ["good.example", host])
