PRAGMA application_id = 1097757798;
PRAGMA user_version = 3;
BEGIN TRANSACTION;
CREATE TABLE batch_files (
        batch text NOT NULL,
        file text NOT NULL,
        PRIMARY KEY (batch, file)
    );
CREATE TABLE batch_gateways (name text PRIMARY KEY, held_until double precision NOT NULL);
CREATE TABLE batch_lines (
        batch text NOT NULL,
        number integer NOT NULL,
        place integer NOT NULL,
        start integer NOT NULL,
        size integer NOT NULL,
        custom_id text NOT NULL,
        model text NOT NULL,
        prefix text NOT NULL,
        state text NOT NULL DEFAULT 'waiting',
        holder text,
        available_at double precision NOT NULL DEFAULT 0,
        lost integer NOT NULL DEFAULT 0,
        failures integer NOT NULL DEFAULT 0,
        begun_calls text NOT NULL DEFAULT '',
        PRIMARY KEY (batch, number)
    );
CREATE TABLE batch_loads (
        gateway text NOT NULL,
        engine text NOT NULL,
        busy integer NOT NULL,
        PRIMARY KEY (gateway, engine)
    );
CREATE TABLE batch_results (
        batch text NOT NULL,
        number integer NOT NULL,
        is_output boolean NOT NULL,
        data blob NOT NULL,
        PRIMARY KEY (batch, number)
    );
CREATE TABLE batch_room (id integer PRIMARY KEY);
INSERT INTO "batch_room" VALUES(1);
CREATE TABLE batch_turns (owner text PRIMARY KEY, served integer NOT NULL);
CREATE TABLE batches (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at integer NOT NULL,
        expires_at integer NOT NULL,
        kept_until integer NOT NULL,
        endpoint text NOT NULL,
        status text NOT NULL,
        stop text,
        input_file text NOT NULL,
        output_file text,
        error_file text,
        total integer NOT NULL DEFAULT 0,
        completed integer NOT NULL DEFAULT 0,
        failed integer NOT NULL DEFAULT 0,
        input_tokens integer NOT NULL DEFAULT 0,
        cached_tokens integer NOT NULL DEFAULT 0,
        output_tokens integer NOT NULL DEFAULT 0,
        reasoning_tokens integer NOT NULL DEFAULT 0,
        served integer NOT NULL DEFAULT 0,
        has_lines boolean NOT NULL DEFAULT false,
        holder text,
        held_until double precision NOT NULL DEFAULT 0,
        models blob NOT NULL,
        details blob NOT NULL
    );
CREATE TABLE chunk_models (store text NOT NULL, model text NOT NULL, PRIMARY KEY (store, model));
CREATE TABLE chunk_stores (
        store text PRIMARY KEY,
        chunks integer NOT NULL DEFAULT 0,
        additions integer NOT NULL DEFAULT 0,
        changes integer NOT NULL DEFAULT 0
    );
CREATE TABLE chunk_texts (id integer PRIMARY KEY, text text NOT NULL);
CREATE TABLE chunk_vectors (
        store text NOT NULL,
        model text NOT NULL,
        id integer NOT NULL,
        file text NOT NULL,
        vector blob NOT NULL,
        PRIMARY KEY (store, model, id)
    ) WITHOUT ROWID;
CREATE TABLE chunks (
        id integer PRIMARY KEY AUTOINCREMENT,
        store text NOT NULL,
        file text NOT NULL,
        number integer NOT NULL
    );
CREATE TABLE chunks_without_vector (id integer PRIMARY KEY, store text NOT NULL);
CREATE TABLE compatibility (oldest integer NOT NULL);
INSERT INTO "compatibility" VALUES(1);
CREATE TABLE discarded_documents (
        store text NOT NULL,
        document text NOT NULL,
        PRIMARY KEY (store, document)
    );
CREATE TABLE file_batches (
        id text PRIMARY KEY,
        store text NOT NULL,
        created_at integer NOT NULL,
        cancelled boolean NOT NULL DEFAULT false
    );
CREATE TABLE file_parts (
        file text NOT NULL,
        number integer NOT NULL,
        written_at integer NOT NULL,
        data blob NOT NULL,
        PRIMARY KEY (file, number)
    );
CREATE TABLE file_room (id integer PRIMARY KEY);
INSERT INTO "file_room" VALUES(1);
CREATE TABLE files (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at integer NOT NULL,
        expires_at integer NOT NULL,
        size integer NOT NULL,
        purpose text NOT NULL,
        filename text NOT NULL,
        content_type text
    );
INSERT INTO "files" VALUES('file-1','ada',1800000000,1802592000,3,'batch','a.jsonl',NULL);
CREATE TABLE upload_parts (
        id text PRIMARY KEY,
        upload text NOT NULL,
        created_at integer NOT NULL,
        size integer NOT NULL
    );
CREATE TABLE uploads (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at integer NOT NULL,
        expires_at integer NOT NULL,
        status text NOT NULL,
        bytes integer NOT NULL,
        filename text NOT NULL,
        purpose text NOT NULL,
        content_type text,
        life integer,
        file text
    );
CREATE TABLE vector_store_files (
        store text NOT NULL,
        file text NOT NULL,
        owner text NOT NULL,
        created_at integer NOT NULL,
        status text NOT NULL,
        size integer NOT NULL DEFAULT 0,
        document text NOT NULL,
        error_code text,
        error_message text,
        holder text,
        held_until double precision NOT NULL DEFAULT 0,
        attempts integer NOT NULL DEFAULT 0,
        attributes blob NOT NULL,
        chunking blob NOT NULL,
        PRIMARY KEY (store, file)
    );
CREATE TABLE vector_stores (
        id text PRIMARY KEY,
        owner text NOT NULL,
        created_at integer NOT NULL,
        expires_at integer NOT NULL,
        last_active_at integer NOT NULL,
        details blob NOT NULL
    );
CREATE INDEX files_by_owner ON files (owner, id);
CREATE INDEX files_by_age ON files (created_at, id);
CREATE INDEX files_by_owner_and_size ON files (owner, expires_at, size);
CREATE INDEX files_by_expiry ON files (expires_at, size);
CREATE INDEX vector_stores_by_owner_and_age ON vector_stores (owner, created_at, id);
CREATE INDEX vector_stores_by_age ON vector_stores (created_at, id);
CREATE INDEX vector_stores_by_expiry ON vector_stores (expires_at);
CREATE INDEX vector_store_files_by_age ON vector_store_files (store, created_at, file);
CREATE INDEX vector_store_files_by_status ON vector_store_files (store, status, size);
CREATE INDEX vector_store_files_by_file ON vector_store_files (file, store);
CREATE INDEX vector_store_files_to_index ON vector_store_files (owner, held_until) WHERE status = 'in_progress';
CREATE INDEX vector_store_files_by_owner ON vector_store_files (owner, size);
CREATE INDEX file_batches_by_store ON file_batches (store);
CREATE UNIQUE INDEX chunks_by_file ON chunks (store, file, number);
CREATE INDEX batches_by_owner ON batches (owner, created_at, id);
CREATE INDEX batches_by_age ON batches (created_at, id);
CREATE INDEX batches_by_status ON batches (status, held_until);
CREATE INDEX batches_by_end ON batches (kept_until);
CREATE INDEX batch_lines_waiting ON batch_lines (batch, model, place) WHERE state = 'waiting';
CREATE INDEX batch_lines_running ON batch_lines (holder, batch) WHERE state = 'running';
CREATE INDEX uploads_by_owner ON uploads (owner, status);
CREATE INDEX uploads_by_expiry ON uploads (expires_at);
CREATE INDEX upload_parts_by_upload ON upload_parts (upload);
DELETE FROM "sqlite_sequence";
COMMIT;
CREATE VIRTUAL TABLE chunk_words USING fts5 (words, content = '', detail = none, columnsize = 0);
