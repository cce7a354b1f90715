"""The tables of uploaded files."""

FILES = (
    # A row is there as soon as all of its contents are. Ids sort in the order in which they were made.
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
    "CREATE INDEX files_by_owner ON files (owner, id)",
    "CREATE INDEX files_by_age ON files (created_at, id)",
    # With the sizes, for the sums that are compared with the limits.
    "CREATE INDEX files_by_owner_and_size ON files (owner, expires_at, size)",
    "CREATE INDEX files_by_expiry ON files (expires_at, size)",
    # One row, which is locked while a file is added: two gateways must not fill the same room.
    "CREATE TABLE file_room (id bigint PRIMARY KEY)",
    "INSERT INTO file_room (id) VALUES (1)",
    # The contents, where several gateways share a database. With SQLite they are files in a folder.
    """CREATE TABLE file_parts (
        file text NOT NULL,
        number bigint NOT NULL,
        written_at bigint NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (file, number)
    )""",
)
