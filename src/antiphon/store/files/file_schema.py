"""The tables of the database of files, as a list of migrations: see `store.sql.schema`, which has those of responses."""

from antiphon.store.files.chunk_tables import CHUNKS
from antiphon.store.files.file_tables import FILES
from antiphon.store.files.vector_store_tables import VECTOR_STORES
from antiphon.store.sql.schema import Migrations

# Never change a migration that was released: append a new one.
FILE_MIGRATIONS: Migrations = ((*FILES, *VECTOR_STORES, *CHUNKS),)
