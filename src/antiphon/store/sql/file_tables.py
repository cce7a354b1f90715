"""The tables of uploaded files."""

FILES = (
    # A row is there as soon as all of its contents are.
    """CREATE TABLE files (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at bigint NOT NULL,
        expires_at bigint NOT NULL,
        size bigint NOT NULL,
        purpose text NOT NULL,
        filename text NOT NULL,
        content_type text
    )""",
    "CREATE INDEX files_by_owner_and_age ON files (owner, created_at, id)",
    "CREATE INDEX files_by_age ON files (created_at, id)",
    "CREATE INDEX files_by_expiry ON files (expires_at)",
    # The contents, where several gateways share a database. With SQLite they are files in a folder.
    """CREATE TABLE file_parts (
        file text NOT NULL,
        number bigint NOT NULL,
        written_at bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (file, number)
    )""",
)
