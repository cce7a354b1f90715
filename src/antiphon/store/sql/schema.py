"""The tables, as a list of migrations: the version of a database is how many of them it has seen."""

# Never change one that was released: append another.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # What is large stands last, so that reading a row's other columns does not read it; `settings` no chain needs.
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
        # A job is available at once while it waits, and at the end of its lease while it runs.
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
        # A row holds all events of one append, under the last one's number.
        """CREATE TABLE events (
            response text NOT NULL,
            last bigint NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (response, last)
        )""",
    ),
    (
        # How many responses an owner has deleted: while it stays the same, a chain that was read is whole.
        "CREATE TABLE deletions (owner text PRIMARY KEY, number bigint NOT NULL)",
    ),
    (
        # How many attempts came to nothing without being lost.
        "ALTER TABLE jobs ADD COLUMN given_back bigint NOT NULL DEFAULT 0",
    ),
)

NEWEST = len(MIGRATIONS)


def too_new(where: str, version: int) -> str:
    return (
        f"{where} has tables of version {version}; this program knows versions up to {NEWEST}. "
        "Use a newer Antiphon, or another store."
    )
