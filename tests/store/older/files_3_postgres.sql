SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA antiphon_files;
CREATE TABLE antiphon_files.batch_files (
    batch text NOT NULL,
    file text NOT NULL
);
CREATE TABLE antiphon_files.batch_gateways (
    name text NOT NULL,
    held_until double precision NOT NULL
);
CREATE TABLE antiphon_files.batch_lines (
    batch text NOT NULL,
    number bigint NOT NULL,
    place bigint NOT NULL,
    start bigint NOT NULL,
    size bigint NOT NULL,
    custom_id text NOT NULL,
    model text NOT NULL,
    prefix text NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    holder text,
    available_at double precision DEFAULT 0 NOT NULL,
    lost bigint DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    begun_calls text DEFAULT ''::text NOT NULL
);
CREATE TABLE antiphon_files.batch_loads (
    gateway text NOT NULL,
    engine text NOT NULL,
    busy bigint NOT NULL
);
CREATE TABLE antiphon_files.batch_results (
    batch text NOT NULL,
    number bigint NOT NULL,
    is_output boolean NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE antiphon_files.batch_room (
    id bigint NOT NULL
);
CREATE TABLE antiphon_files.batch_turns (
    owner text NOT NULL,
    served bigint NOT NULL
);
CREATE TABLE antiphon_files.batches (
    id text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    kept_until bigint NOT NULL,
    endpoint text NOT NULL,
    status text NOT NULL,
    stop text,
    input_file text NOT NULL,
    output_file text,
    error_file text,
    total bigint DEFAULT 0 NOT NULL,
    completed bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    input_tokens bigint DEFAULT 0 NOT NULL,
    cached_tokens bigint DEFAULT 0 NOT NULL,
    output_tokens bigint DEFAULT 0 NOT NULL,
    reasoning_tokens bigint DEFAULT 0 NOT NULL,
    served bigint DEFAULT 0 NOT NULL,
    has_lines boolean DEFAULT false NOT NULL,
    holder text,
    held_until double precision DEFAULT 0 NOT NULL,
    models bytea NOT NULL,
    details bytea NOT NULL
);
CREATE TABLE antiphon_files.chunk_models (
    store text NOT NULL,
    model text NOT NULL
);
CREATE TABLE antiphon_files.chunk_stores (
    store text NOT NULL,
    chunks bigint DEFAULT 0 NOT NULL,
    additions bigint DEFAULT 0 NOT NULL,
    changes bigint DEFAULT 0 NOT NULL
);
CREATE TABLE antiphon_files.chunk_texts (
    id bigint NOT NULL,
    text text NOT NULL
);
CREATE TABLE antiphon_files.chunk_vectors (
    store text NOT NULL,
    model text NOT NULL,
    id bigint NOT NULL,
    file text NOT NULL,
    vector bytea NOT NULL
);
CREATE TABLE antiphon_files.chunk_words (
    id bigint NOT NULL,
    words bigint[] NOT NULL
);
CREATE TABLE antiphon_files.chunks (
    id bigint NOT NULL,
    store text NOT NULL,
    file text NOT NULL,
    number bigint NOT NULL
);
CREATE SEQUENCE antiphon_files.chunks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE antiphon_files.chunks_id_seq OWNED BY antiphon_files.chunks.id;
CREATE TABLE antiphon_files.chunks_without_vector (
    id bigint NOT NULL,
    store text NOT NULL
);
CREATE TABLE antiphon_files.compatibility (
    oldest bigint NOT NULL
);
CREATE TABLE antiphon_files.discarded_documents (
    store text NOT NULL,
    document text NOT NULL
);
CREATE TABLE antiphon_files.file_batches (
    id text NOT NULL,
    store text NOT NULL,
    created_at bigint NOT NULL,
    cancelled boolean DEFAULT false NOT NULL
);
CREATE TABLE antiphon_files.file_parts (
    file text NOT NULL,
    number bigint NOT NULL,
    written_at bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE antiphon_files.file_room (
    id bigint NOT NULL
);
CREATE TABLE antiphon_files.files (
    id text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    size bigint NOT NULL,
    purpose text NOT NULL,
    filename text NOT NULL,
    content_type text
);
CREATE TABLE antiphon_files.upload_parts (
    id text NOT NULL,
    upload text NOT NULL,
    created_at bigint NOT NULL,
    size bigint NOT NULL
);
CREATE TABLE antiphon_files.uploads (
    id text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    status text NOT NULL,
    bytes bigint NOT NULL,
    filename text NOT NULL,
    purpose text NOT NULL,
    content_type text,
    life bigint,
    file text
);
CREATE TABLE antiphon_files.vector_store_files (
    store text NOT NULL,
    file text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    status text NOT NULL,
    size bigint DEFAULT 0 NOT NULL,
    document text NOT NULL,
    error_code text,
    error_message text,
    holder text,
    held_until double precision DEFAULT 0 NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    attributes bytea NOT NULL,
    chunking bytea NOT NULL
);
CREATE TABLE antiphon_files.vector_stores (
    id text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    last_active_at bigint NOT NULL,
    details bytea NOT NULL
);
CREATE TABLE antiphon_files.version (
    number bigint NOT NULL
);
ALTER TABLE ONLY antiphon_files.chunks ALTER COLUMN id SET DEFAULT nextval('antiphon_files.chunks_id_seq'::regclass);
INSERT INTO antiphon_files.batch_room VALUES (1);
INSERT INTO antiphon_files.compatibility VALUES (1);
INSERT INTO antiphon_files.file_room VALUES (1);
INSERT INTO antiphon_files.files VALUES ('file-1', 'ada', 1800000000, 1802592000, 3, 'batch', 'a.jsonl', NULL);
INSERT INTO antiphon_files.version VALUES (3);
SELECT pg_catalog.setval('antiphon_files.chunks_id_seq', 1, false);
ALTER TABLE ONLY antiphon_files.batch_files
    ADD CONSTRAINT batch_files_pkey PRIMARY KEY (batch, file);
ALTER TABLE ONLY antiphon_files.batch_gateways
    ADD CONSTRAINT batch_gateways_pkey PRIMARY KEY (name);
ALTER TABLE ONLY antiphon_files.batch_lines
    ADD CONSTRAINT batch_lines_pkey PRIMARY KEY (batch, number);
ALTER TABLE ONLY antiphon_files.batch_loads
    ADD CONSTRAINT batch_loads_pkey PRIMARY KEY (gateway, engine);
ALTER TABLE ONLY antiphon_files.batch_results
    ADD CONSTRAINT batch_results_pkey PRIMARY KEY (batch, number);
ALTER TABLE ONLY antiphon_files.batch_room
    ADD CONSTRAINT batch_room_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.batch_turns
    ADD CONSTRAINT batch_turns_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY antiphon_files.batches
    ADD CONSTRAINT batches_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.chunk_models
    ADD CONSTRAINT chunk_models_pkey PRIMARY KEY (store, model);
ALTER TABLE ONLY antiphon_files.chunk_stores
    ADD CONSTRAINT chunk_stores_pkey PRIMARY KEY (store);
ALTER TABLE ONLY antiphon_files.chunk_texts
    ADD CONSTRAINT chunk_texts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.chunk_vectors
    ADD CONSTRAINT chunk_vectors_pkey PRIMARY KEY (store, model, id);
ALTER TABLE ONLY antiphon_files.chunks
    ADD CONSTRAINT chunks_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.chunks_without_vector
    ADD CONSTRAINT chunks_without_vector_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.discarded_documents
    ADD CONSTRAINT discarded_documents_pkey PRIMARY KEY (store, document);
ALTER TABLE ONLY antiphon_files.file_batches
    ADD CONSTRAINT file_batches_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.file_parts
    ADD CONSTRAINT file_parts_pkey PRIMARY KEY (file, number);
ALTER TABLE ONLY antiphon_files.file_room
    ADD CONSTRAINT file_room_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.files
    ADD CONSTRAINT files_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.upload_parts
    ADD CONSTRAINT upload_parts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.uploads
    ADD CONSTRAINT uploads_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon_files.vector_store_files
    ADD CONSTRAINT vector_store_files_pkey PRIMARY KEY (store, file);
ALTER TABLE ONLY antiphon_files.vector_stores
    ADD CONSTRAINT vector_stores_pkey PRIMARY KEY (id);
CREATE INDEX batch_lines_running ON antiphon_files.batch_lines USING btree (holder, batch) WHERE (state = 'running'::text);
CREATE INDEX batch_lines_waiting ON antiphon_files.batch_lines USING btree (batch, model, place) WHERE (state = 'waiting'::text);
CREATE INDEX batches_by_age ON antiphon_files.batches USING btree (created_at, id);
CREATE INDEX batches_by_end ON antiphon_files.batches USING btree (kept_until);
CREATE INDEX batches_by_owner ON antiphon_files.batches USING btree (owner, created_at, id);
CREATE INDEX batches_by_status ON antiphon_files.batches USING btree (status, held_until);
CREATE INDEX chunk_words_by_id ON antiphon_files.chunk_words USING hash (id);
CREATE INDEX chunk_words_by_word ON antiphon_files.chunk_words USING gin (words) WITH (gin_pending_list_limit='1024');
CREATE UNIQUE INDEX chunks_by_file ON antiphon_files.chunks USING btree (store, file, number);
CREATE INDEX file_batches_by_store ON antiphon_files.file_batches USING btree (store);
CREATE INDEX files_by_age ON antiphon_files.files USING btree (created_at, id);
CREATE INDEX files_by_expiry ON antiphon_files.files USING btree (expires_at, size);
CREATE INDEX files_by_owner ON antiphon_files.files USING btree (owner, id);
CREATE INDEX files_by_owner_and_size ON antiphon_files.files USING btree (owner, expires_at, size);
CREATE INDEX upload_parts_by_upload ON antiphon_files.upload_parts USING btree (upload);
CREATE INDEX uploads_by_expiry ON antiphon_files.uploads USING btree (expires_at);
CREATE INDEX uploads_by_owner ON antiphon_files.uploads USING btree (owner, status);
CREATE INDEX vector_store_files_by_age ON antiphon_files.vector_store_files USING btree (store, created_at, file);
CREATE INDEX vector_store_files_by_file ON antiphon_files.vector_store_files USING btree (file, store);
CREATE INDEX vector_store_files_by_owner ON antiphon_files.vector_store_files USING btree (owner, size);
CREATE INDEX vector_store_files_by_status ON antiphon_files.vector_store_files USING btree (store, status, size);
CREATE INDEX vector_store_files_to_index ON antiphon_files.vector_store_files USING btree (owner, held_until) WHERE (status = 'in_progress'::text);
CREATE INDEX vector_stores_by_age ON antiphon_files.vector_stores USING btree (created_at, id);
CREATE INDEX vector_stores_by_expiry ON antiphon_files.vector_stores USING btree (expires_at);
CREATE INDEX vector_stores_by_owner_and_age ON antiphon_files.vector_stores USING btree (owner, created_at, id);
