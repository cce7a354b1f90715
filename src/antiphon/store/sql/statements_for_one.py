"""Statements of a migration that only one kind of database has: each of them indexes words in its own way."""


class SqliteOnly(str):
    __slots__ = ()


class PostgresOnly(str):
    __slots__ = ()
