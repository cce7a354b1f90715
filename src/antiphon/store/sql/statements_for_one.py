"""Statements that only one kind of database has: each of them indexes words in its own way. The other one passes over them: in
an operation, no rows are sent back."""


class SqliteOnly(str):
    __slots__ = ()


class PostgresOnly(str):
    __slots__ = ()
