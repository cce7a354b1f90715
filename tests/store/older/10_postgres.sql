SELECT pg_catalog.set_config('search_path', '', false);
CREATE SCHEMA antiphon;
CREATE TABLE antiphon.compatibility (
    oldest bigint NOT NULL
);
CREATE TABLE antiphon.conversations (
    id text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    next_position bigint DEFAULT 0 NOT NULL,
    holder text,
    held_until double precision DEFAULT 0 NOT NULL,
    metadata bytea NOT NULL
);
CREATE TABLE antiphon.deleted_responses (
    id text NOT NULL,
    owner text NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE antiphon.deletions (
    owner text NOT NULL,
    number bigint NOT NULL
);
CREATE TABLE antiphon.events (
    response text NOT NULL,
    last bigint NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE antiphon.items (
    conversation text NOT NULL,
    "position" bigint NOT NULL,
    id text NOT NULL,
    data bytea NOT NULL,
    written_at double precision DEFAULT 0 NOT NULL
);
CREATE TABLE antiphon.jobs (
    number bigint NOT NULL,
    id text NOT NULL,
    owner text NOT NULL,
    available_at double precision NOT NULL,
    worker text,
    attempt bigint DEFAULT 0 NOT NULL,
    cancel boolean DEFAULT false NOT NULL,
    request bytea NOT NULL,
    given_back bigint DEFAULT 0 NOT NULL,
    begun_calls text DEFAULT ''::text NOT NULL
);
CREATE SEQUENCE antiphon.jobs_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE antiphon.jobs_number_seq OWNED BY antiphon.jobs.number;
CREATE TABLE antiphon.key_limits (
    name text NOT NULL,
    limits bytea NOT NULL
);
CREATE TABLE antiphon.renamed_owners (
    earlier text NOT NULL,
    owner text NOT NULL
);
CREATE TABLE antiphon.response_items (
    item bytea NOT NULL,
    response text NOT NULL,
    written_at double precision NOT NULL
);
CREATE TABLE antiphon.responses (
    id text NOT NULL,
    owner text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    status text NOT NULL,
    parent text,
    conversation text,
    background boolean NOT NULL,
    attempt bigint DEFAULT 0 NOT NULL,
    input bytea NOT NULL,
    output bytea NOT NULL,
    settings bytea NOT NULL,
    items_indexed boolean DEFAULT false NOT NULL,
    kept_after_end bigint,
    items_indexed_by_time boolean DEFAULT false NOT NULL
);
CREATE TABLE antiphon.stored_keys (
    hash text NOT NULL,
    name text NOT NULL,
    hint text NOT NULL,
    created_at bigint NOT NULL,
    ends_at bigint
);
CREATE TABLE antiphon.usage_entries (
    id text NOT NULL,
    at bigint NOT NULL,
    owner text NOT NULL,
    model text NOT NULL,
    channel text NOT NULL,
    requests bigint NOT NULL,
    failures bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    tool_calls bigint NOT NULL
);
CREATE TABLE antiphon.usage_sums (
    owner text NOT NULL,
    hour bigint NOT NULL,
    model text NOT NULL,
    channel text NOT NULL,
    requests bigint NOT NULL,
    failures bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    reasoning_tokens bigint NOT NULL,
    tool_calls bigint NOT NULL
);
CREATE TABLE antiphon.version (
    number bigint NOT NULL
);
CREATE TABLE antiphon.webhook_deliveries (
    id text NOT NULL,
    endpoint text NOT NULL,
    created_at bigint NOT NULL,
    due_at double precision NOT NULL,
    attempts bigint DEFAULT 0 NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE ONLY antiphon.jobs ALTER COLUMN number SET DEFAULT nextval('antiphon.jobs_number_seq'::regclass);
INSERT INTO antiphon.compatibility VALUES (1);
INSERT INTO antiphon.conversations VALUES ('talk', 'ada', 1800000000, 1802592000, 4, NULL, 0, '\x7b22746f706963223a22746561227d');
INSERT INTO antiphon.deleted_responses VALUES ('deleted', 'ada', 1802678400);
INSERT INTO antiphon.deletions VALUES ('ada', 1);
INSERT INTO antiphon.events VALUES ('finished', 1, '\x929200c409646174613a20300a0a9201c409646174613a20310a0a');
INSERT INTO antiphon.events VALUES ('finished', 2, '\x919202c409646174613a20320a0a');
INSERT INTO antiphon.events VALUES ('running', 1, '\x929200c409646174613a20300a0a9201c409646174613a20310a0a');
INSERT INTO antiphon.items VALUES ('talk', 0, 'said_1', '\x7b226964223a2022736169645f31222c202274797065223a20226d657373616765227d', 1800000000);
INSERT INTO antiphon.items VALUES ('talk', 1, 'said_2', '\x7b226964223a2022736169645f32222c202274797065223a20226d657373616765227d', 1800000000);
INSERT INTO antiphon.items VALUES ('talk', 2, 'said_3', '\x7b226964223a2022736169645f33222c202274797065223a20226d657373616765227d', 1800000000);
INSERT INTO antiphon.items VALUES ('talk', 3, 'said_4', '\x7b226964223a2022736169645f34222c202274797065223a20226d657373616765227d', 1800000000);
INSERT INTO antiphon.jobs VALUES (2, 'running', 'ada', 1800000060, 'old', 1, false, '\x7b226d6f64656c223a226d222c22696e707574223a224869227d', 0, '');
INSERT INTO antiphon.jobs VALUES (4, 'queued', 'ada', 1800000000, NULL, 0, false, '\x7b226d6f64656c223a226d222c22696e707574223a224869227d', 0, '');
INSERT INTO antiphon.response_items VALUES ('\x232943225274acd50c36fe5b2c368991', 'first', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\xf00e9c358e2f60d070d53d6e4bc739c5', 'first', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x7b0a02f18cdd4aaa378b3e26719cd3d0', 'second', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x5128c2cc08520f9e21326158b929b566', 'second', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x151781b2c89e44638dfd1a7bd6d77159', 'of_bob', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x1fa1bdb502b377f5bc46c81d488ea242', 'of_bob', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x5170d5b159f138905c19c12c052a0244', 'answer', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x32e2d9f72fd4369fd3b7c43e3d23e658', 'answer', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\xf9b6ffe5f2c1fbf15905c7956a4b1e71', 'finished', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x3e00f6578358291bfc79557a8769e006', 'finished', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\xbd74c3c4205b255a2f51a2b3a530d8c3', 'running', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x9d7b9fadc1218f79ee397a2af1dcf41d', 'cancelled', 1800000000);
INSERT INTO antiphon.response_items VALUES ('\x4fa381d3a46a0de57e7db19c4f802a7b', 'queued', 1800000000);
INSERT INTO antiphon.responses VALUES ('first', 'ada', 1800000000, 1802592000, 'completed', NULL, NULL, false, 0, '\x5b7b226964223a2022696e5f6669727374222c202274797065223a20226d657373616765227d5d', '\x5b7b226964223a20226f75745f6669727374222c202274797065223a20226d657373616765227d5d', '\x7b226964223a20226669727374222c20226d6f64656c223a20226d227d', false, NULL, true);
INSERT INTO antiphon.responses VALUES ('second', 'ada', 1800000000, 1802592000, 'completed', 'first', NULL, false, 0, '\x5b7b226964223a2022696e5f7365636f6e64222c202274797065223a20226d657373616765227d5d', '\x5b7b226964223a20226f75745f7365636f6e64222c202274797065223a20226d657373616765227d5d', '\x7b226964223a20227365636f6e64222c20226d6f64656c223a20226d227d', false, NULL, true);
INSERT INTO antiphon.responses VALUES ('of_bob', 'bob', 1800000000, 1802592000, 'completed', NULL, NULL, false, 0, '\x5b7b226964223a2022696e5f6f665f626f62222c202274797065223a20226d657373616765227d5d', '\x5b7b226964223a20226f75745f6f665f626f62222c202274797065223a20226d657373616765227d5d', '\x7b226964223a20226f665f626f62222c20226d6f64656c223a20226d227d', false, NULL, true);
INSERT INTO antiphon.responses VALUES ('answer', 'ada', 1800000000, 1802592000, 'completed', NULL, 'talk', false, 0, '\x5b7b226964223a2022696e5f616e73776572222c202274797065223a20226d657373616765227d5d', '\x5b7b226964223a20226f75745f616e73776572222c202274797065223a20226d657373616765227d5d', '\x7b226964223a2022616e73776572222c20226d6f64656c223a20226d227d', false, NULL, true);
INSERT INTO antiphon.responses VALUES ('finished', 'ada', 1800000000, 1802592000, 'completed', NULL, NULL, true, 1, '\x5b7b226964223a2022696e5f66696e6973686564222c202274797065223a20226d657373616765227d5d', '\x5b7b226964223a20226f75745f66696e6973686564222c202274797065223a20226d657373616765227d5d', '\x7b226964223a202266696e6973686564222c20226d6f64656c223a20226d227d', false, NULL, true);
INSERT INTO antiphon.responses VALUES ('running', 'ada', 1800000000, 1802592000, 'in_progress', NULL, NULL, true, 1, '\x5b7b226964223a2022696e5f72756e6e696e67222c202274797065223a20226d657373616765227d5d', '\x5b5d', '\x7b226964223a202272756e6e696e67222c20226d6f64656c223a20226d227d', false, NULL, false);
INSERT INTO antiphon.responses VALUES ('cancelled', 'ada', 1800000000, 1802592000, 'cancelled', NULL, NULL, true, 0, '\x5b7b226964223a2022696e5f63616e63656c6c6564222c202274797065223a20226d657373616765227d5d', '\x5b5d', '\x7b226964223a202263616e63656c6c6564222c20226d6f64656c223a20226d227d', false, NULL, false);
INSERT INTO antiphon.responses VALUES ('queued', 'ada', 1800000000, 1802592000, 'queued', NULL, NULL, true, 0, '\x5b7b226964223a2022696e5f717565756564222c202274797065223a20226d657373616765227d5d', '\x5b5d', '\x7b226964223a2022717565756564222c20226d6f64656c223a20226d227d', false, NULL, false);
INSERT INTO antiphon.version VALUES (10);
SELECT pg_catalog.setval('antiphon.jobs_number_seq', 4, true);
ALTER TABLE ONLY antiphon.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon.deleted_responses
    ADD CONSTRAINT deleted_responses_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon.deletions
    ADD CONSTRAINT deletions_pkey PRIMARY KEY (owner);
ALTER TABLE ONLY antiphon.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (response, last);
ALTER TABLE ONLY antiphon.items
    ADD CONSTRAINT items_conversation_id_key UNIQUE (conversation, id);
ALTER TABLE ONLY antiphon.items
    ADD CONSTRAINT items_pkey PRIMARY KEY (conversation, "position");
ALTER TABLE ONLY antiphon.jobs
    ADD CONSTRAINT jobs_id_key UNIQUE (id);
ALTER TABLE ONLY antiphon.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (number);
ALTER TABLE ONLY antiphon.key_limits
    ADD CONSTRAINT key_limits_pkey PRIMARY KEY (name);
ALTER TABLE ONLY antiphon.renamed_owners
    ADD CONSTRAINT renamed_owners_pkey PRIMARY KEY (earlier);
ALTER TABLE ONLY antiphon.response_items
    ADD CONSTRAINT response_items_pkey PRIMARY KEY (item, response);
ALTER TABLE ONLY antiphon.responses
    ADD CONSTRAINT responses_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon.stored_keys
    ADD CONSTRAINT stored_keys_pkey PRIMARY KEY (hash);
ALTER TABLE ONLY antiphon.usage_entries
    ADD CONSTRAINT usage_entries_pkey PRIMARY KEY (id);
ALTER TABLE ONLY antiphon.usage_sums
    ADD CONSTRAINT usage_sums_pkey PRIMARY KEY (owner, hour, model, channel);
ALTER TABLE ONLY antiphon.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id);
CREATE INDEX conversations_by_age ON antiphon.conversations USING btree (created_at, id);
CREATE INDEX conversations_by_expiry ON antiphon.conversations USING btree (expires_at);
CREATE INDEX conversations_by_owner ON antiphon.conversations USING btree (owner, id);
CREATE INDEX conversations_by_owner_and_age ON antiphon.conversations USING btree (owner, created_at, id);
CREATE INDEX deleted_responses_by_expiry ON antiphon.deleted_responses USING btree (expires_at);
CREATE INDEX deleted_responses_by_owner ON antiphon.deleted_responses USING btree (owner, id);
CREATE INDEX items_by_id ON antiphon.items USING btree (id);
CREATE INDEX jobs_by_availability ON antiphon.jobs USING btree (available_at, number);
CREATE INDEX response_items_by_response ON antiphon.response_items USING btree (response);
CREATE INDEX responses_by_age ON antiphon.responses USING btree (created_at, id);
CREATE INDEX responses_by_expiry ON antiphon.responses USING btree (expires_at);
CREATE INDEX responses_by_owner_and_age ON antiphon.responses USING btree (owner, created_at, id);
CREATE INDEX responses_not_stored ON antiphon.responses USING btree (kept_after_end) WHERE (kept_after_end IS NOT NULL);
CREATE INDEX responses_to_index ON antiphon.responses USING btree (owner, id) WHERE (NOT items_indexed);
CREATE INDEX responses_to_index_by_time ON antiphon.responses USING btree (owner, id) WHERE ((NOT items_indexed) AND (NOT items_indexed_by_time));
CREATE INDEX stored_keys_by_name ON antiphon.stored_keys USING btree (name);
CREATE INDEX usage_entries_by_owner ON antiphon.usage_entries USING btree (owner, at);
CREATE INDEX usage_entries_by_time ON antiphon.usage_entries USING btree (at);
CREATE INDEX usage_sums_by_hour ON antiphon.usage_sums USING btree (hour);
CREATE INDEX webhook_deliveries_by_age ON antiphon.webhook_deliveries USING btree (created_at);
CREATE INDEX webhook_deliveries_by_time ON antiphon.webhook_deliveries USING btree (endpoint, due_at);
ALTER TABLE ONLY antiphon.response_items
    ADD CONSTRAINT response_items_response_fkey FOREIGN KEY (response) REFERENCES antiphon.responses(id) ON DELETE CASCADE;
