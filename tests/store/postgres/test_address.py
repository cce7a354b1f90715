"""The URL of a Postgres store, as messages and other programs get it."""

import pytest

from antiphon.store.postgres.address import address_to_words, without_password


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://ada:s3cret@db.example:5433/answers", "db.example:5433, database answers"),
        ("postgres://ada:s3%40cret@[::1]/answers?sslmode=require", "[::1]:5432, database answers"),
        ("postgresql://one:1,two/answers", "one:1, two:5432, database answers"),
        ("postgresql:///answers?host=/run/pg&password=s3cret", "/run/pg, database answers"),
        ("postgresql://db.example?dbname=answers", "db.example:5432, database answers"),
        ("postgresql://", "its default address, the default database"),
    ],
)
def test_a_server_is_named_with_its_port_and_database(url: str, words: str) -> None:
    assert address_to_words(url, {}) == words


def test_what_the_url_leaves_out_is_in_the_environment() -> None:
    environment = {"PGHOST": "db.example", "PGPORT": "5433", "PGDATABASE": "answers", "PGPASSWORD": "s3cret"}
    assert address_to_words("postgresql://", environment) == "db.example:5433, database answers"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:s3cret@db.example:5433/answers", "postgresql://ada@db.example:5433/answers"),
        ("postgresql://ada:a:s3cret@[::1]/answers?sslmode=require", "postgresql://ada@[::1]/answers?sslmode=require"),
        ("postgresql:///answers?host=/run/pg&password=s3cret", "postgresql:///answers?host=/run/pg"),
        ("postgresql://ada@h/answers?sslpassword=s3cret", "postgresql://ada@h/answers"),
        ("postgresql://db.example/answers", "postgresql://db.example/answers"),
    ],
)
def test_the_password_is_left_out(url: str, shown: str) -> None:
    assert without_password(url) == shown
