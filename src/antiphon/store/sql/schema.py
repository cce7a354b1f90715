"""The tables, as a list of migrations. The version of a database is the number of migrations it has had.

Gateways of several versions may use one database at the same time: while they are upgraded one after the other, the first of
the newer ones migrates it, and the older ones go on. So a migration only adds: tables, indexes, and columns that have a
default. It may drop an index without which older versions are slower at something rare. One that cannot do without more begins
with `BREAKS_OLDER`; older versions then refuse to open the database.
"""

import logging
from collections.abc import Iterator
from typing import TypeAlias

from antiphon.logs import log
from antiphon.store.accounts.schema import ACCOUNTS
from antiphon.store.protocol import CannotOpen

# To a database, a query without an effect.
BREAKS_OLDER = "SELECT 'older versions cannot use these tables'"

# Each migration is a list of statements.
Migrations: TypeAlias = tuple[tuple[str, ...], ...]

# Never change a migration that was released: append a new one.
MIGRATIONS: Migrations = (
    (
        # Large columns are last, so that reading the other columns does not read them. Chains do not read `settings`.
        """CREATE TABLE responses (
            id text PRIMARY KEY,
            owner text NOT NULL,
            created_at bigint NOT NULL,
            expires_at bigint NOT NULL,
            status text NOT NULL,
            parent text,
            conversation text,
            background boolean NOT NULL,
            attempt bigint NOT NULL DEFAULT 0,
            input bytea NOT NULL,
            output bytea NOT NULL,
            settings bytea NOT NULL
        )""",
        "CREATE INDEX responses_by_expiry ON responses (expires_at)",
        """CREATE TABLE conversations (
            id text PRIMARY KEY,
            owner text NOT NULL,
            created_at bigint NOT NULL,
            expires_at bigint NOT NULL,
            next_position bigint NOT NULL DEFAULT 0,
            holder text,
            held_until double precision NOT NULL DEFAULT 0,
            metadata bytea NOT NULL
        )""",
        "CREATE INDEX conversations_by_expiry ON conversations (expires_at)",
        """CREATE TABLE items (
            conversation text NOT NULL,
            position bigint NOT NULL,
            id text NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (conversation, position),
            UNIQUE (conversation, id)
        )""",
        # A queued job is available at once, a running one at the end of its lease.
        """CREATE TABLE jobs (
            number bigserial PRIMARY KEY,
            id text NOT NULL UNIQUE,
            owner text NOT NULL,
            available_at double precision NOT NULL,
            worker text,
            attempt bigint NOT NULL DEFAULT 0,
            cancel boolean NOT NULL DEFAULT false,
            request bytea NOT NULL
        )""",
        "CREATE INDEX jobs_by_availability ON jobs (available_at, number)",
        # A row contains all events of one append. `last` is the number of the last one.
        """CREATE TABLE events (
            response text NOT NULL,
            last bigint NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (response, last)
        )""",
    ),
    (
        # The number of responses that an owner has deleted. While it does not change, a chain that was read is complete.
        "CREATE TABLE deletions (owner text PRIMARY KEY, number bigint NOT NULL)",
    ),
    (
        # The number of attempts that were given back, and so do not count as lost.
        "ALTER TABLE jobs ADD COLUMN given_back bigint NOT NULL DEFAULT 0",
    ),
    (
        # Which responses contain an item: `item` is a digest of its owner and its id. Older gateways, which may use the same
        # database, do not know this table: Postgres removes its rows with their response, and a response that an older
        # gateway wrote is not marked as indexed.
        """CREATE TABLE response_items (
            item bytea NOT NULL,
            response text NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
            written_at double precision NOT NULL,
            PRIMARY KEY (item, response)
        ) /* SQLite: WITHOUT ROWID */""",
        "CREATE INDEX response_items_by_response ON response_items (response)",
        "ALTER TABLE responses ADD COLUMN items_indexed boolean NOT NULL DEFAULT false",
        "CREATE INDEX responses_to_index ON responses (owner, id) WHERE NOT items_indexed",
        "ALTER TABLE items ADD COLUMN written_at double precision NOT NULL DEFAULT 0",
        "CREATE INDEX items_by_id ON items (id)",
        # The responses that their owners deleted, until no response can be left that continued them.
        "CREATE TABLE deleted_responses (id text PRIMARY KEY, owner text NOT NULL, expires_at bigint NOT NULL)",
        "CREATE INDEX deleted_responses_by_expiry ON deleted_responses (expires_at)",
    ),
    (
        # The owners whose rows were given to another one, because their keys got a name.
        "CREATE TABLE renamed_owners (earlier text PRIMARY KEY, owner text NOT NULL)",
        "CREATE INDEX responses_by_owner ON responses (owner, id)",
        "CREATE INDEX conversations_by_owner ON conversations (owner, id)",
        "CREATE INDEX deleted_responses_by_owner ON deleted_responses (owner, id)",
    ),
    (
        # For lists: of one owner, and of all.
        "CREATE INDEX responses_by_owner_and_age ON responses (owner, created_at, id)",
        "CREATE INDEX responses_by_age ON responses (created_at, id)",
        "CREATE INDEX conversations_by_owner_and_age ON conversations (owner, created_at, id)",
        "CREATE INDEX conversations_by_age ON conversations (created_at, id)",
    ),
    (
        # The calls of tools that were begun and must not be made twice, each as a line of JSON.
        "ALTER TABLE jobs ADD COLUMN begun_calls text NOT NULL DEFAULT ''",
    ),
    (
        # Of responses that are not to be stored: the seconds for which they are kept after their end.
        "ALTER TABLE responses ADD COLUMN kept_after_end bigint",
        "CREATE INDEX responses_not_stored ON responses (kept_after_end) WHERE kept_after_end IS NOT NULL",
    ),
    ACCOUNTS,
    (
        # Whether the items of a response are indexed by keys that begin with the time: see `item_index`. Older gateways do not
        # know those keys. So for them `items_indexed` stays false, and they index such a response when they miss an item.
        "ALTER TABLE responses ADD COLUMN items_indexed_by_time boolean NOT NULL DEFAULT false",
        """CREATE INDEX responses_to_index_by_time ON responses (owner, id)
            WHERE NOT items_indexed AND NOT items_indexed_by_time""",
        # For what it was used, `responses_by_owner_and_age` does as well. Each index is written with each response.
        "DROP INDEX responses_by_owner",
    ),
)


def pending(version: int, oldest: int | None, migrations: Migrations, database: str) -> Migrations:
    """The migrations that a database of this version still needs. Raises CannotOpen.

    `oldest` is the oldest version that can use it, as the newest one that opened it has noted. A database that a newer version
    has migrated is used as it is, if that is possible.
    """
    known = len(migrations)
    if version <= known:
        return migrations[version:]
    if oldest is None or oldest > known:
        raise CannotOpen(
            f"{database} has tables of version {version}, but this Antiphon supports versions up to {known}. "
            "Use a newer Antiphon, or another store."
        )
    log("newer_tables", level=logging.WARNING, database=database, version=version, supported=known)
    return ()


def note_oldest(migrations: Migrations) -> Iterator[str]:
    """Statements that note in a database which versions can use it from now on."""
    oldest = max((number for number, migration in enumerate(migrations, 1) if BREAKS_OLDER in migration), default=1)
    yield "CREATE TABLE IF NOT EXISTS compatibility (oldest bigint NOT NULL)"
    yield "DELETE FROM compatibility"
    yield f"INSERT INTO compatibility (oldest) VALUES ({oldest})"
