"""The tables of the database of files, as a list of migrations: see `store.sql.schema`, which has those of responses."""

from antiphon.store.sql.chunk_tables import CHUNKS
from antiphon.store.sql.file_tables import FILES
from antiphon.store.sql.schema import Migrations
from antiphon.store.sql.vector_store_tables import VECTOR_STORES

# Never change a migration that was released: append a new one.
FILE_MIGRATIONS: Migrations = ((*FILES, *VECTOR_STORES, *CHUNKS),)
