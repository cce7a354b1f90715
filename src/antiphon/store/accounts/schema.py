"""Their tables: one migration of the database of responses, because usage and messages are written with a response."""

from antiphon.store.operations import PostgresOnly

_COUNTS = """
    requests bigint NOT NULL,
    failures bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    tool_calls bigint NOT NULL"""

ACCOUNTS = (
    # Appended, so that requests of one key do not wait for each other. The sweeper adds them to the sums below.
    f"""CREATE TABLE usage_entries (
        id text PRIMARY KEY,
        at bigint NOT NULL,
        owner text NOT NULL,
        model text NOT NULL,
        channel text NOT NULL,{_COUNTS}
    ) /* SQLite: WITHOUT ROWID */""",
    # SQLite reads the entries of some minutes as fast as it would keep an index of them.
    PostgresOnly("CREATE INDEX usage_entries_by_owner ON usage_entries (owner, at)"),
    PostgresOnly("CREATE INDEX usage_entries_by_time ON usage_entries (at)"),
    f"""CREATE TABLE usage_sums (
        owner text NOT NULL,
        hour bigint NOT NULL,
        model text NOT NULL,
        channel text NOT NULL,{_COUNTS},
        PRIMARY KEY (owner, hour, model, channel)
    ) /* SQLite: WITHOUT ROWID */""",
    "CREATE INDEX usage_sums_by_hour ON usage_sums (hour)",
    """CREATE TABLE stored_keys (
        hash text PRIMARY KEY,
        name text NOT NULL,
        hint text NOT NULL,
        created_at bigint NOT NULL,
        ends_at bigint
    )""",
    "CREATE INDEX stored_keys_by_name ON stored_keys (name)",
    "CREATE TABLE key_limits (name text PRIMARY KEY, limits bytea NOT NULL)",
    """CREATE TABLE webhook_deliveries (
        id text PRIMARY KEY,
        endpoint text NOT NULL,
        created_at bigint NOT NULL,
        due_at double precision NOT NULL,
        attempts bigint NOT NULL DEFAULT 0,
        body bytea NOT NULL
    )""",
    "CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (endpoint, due_at)",
    "CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at)",
)
