PRAGMA application_id = 1097757798;
PRAGMA user_version = 10;
BEGIN TRANSACTION;
CREATE TABLE compatibility (oldest integer NOT NULL);
INSERT INTO "compatibility" VALUES(1);
CREATE TABLE conversations (
            id text PRIMARY KEY,
            owner text NOT NULL,
            created_at integer NOT NULL,
            expires_at integer NOT NULL,
            next_position integer NOT NULL DEFAULT 0,
            holder text,
            held_until double precision NOT NULL DEFAULT 0,
            metadata blob NOT NULL
        );
INSERT INTO "conversations" VALUES('talk','ada',1800000000,1802592000,4,NULL,0.0,X'7B22746F706963223A22746561227D');
CREATE TABLE deleted_responses (id text PRIMARY KEY, owner text NOT NULL, expires_at integer NOT NULL);
INSERT INTO "deleted_responses" VALUES('deleted','ada',1802678400);
CREATE TABLE deletions (owner text PRIMARY KEY, number integer NOT NULL);
INSERT INTO "deletions" VALUES('ada',1);
CREATE TABLE events (
            response text NOT NULL,
            last integer NOT NULL,
            data blob NOT NULL,
            PRIMARY KEY (response, last)
        );
INSERT INTO "events" VALUES('finished',1,X'929200C409646174613A20300A0A9201C409646174613A20310A0A');
INSERT INTO "events" VALUES('finished',2,X'919202C409646174613A20320A0A');
INSERT INTO "events" VALUES('running',1,X'929200C409646174613A20300A0A9201C409646174613A20310A0A');
CREATE TABLE items (
            conversation text NOT NULL,
            position integer NOT NULL,
            id text NOT NULL,
            data blob NOT NULL, written_at double precision NOT NULL DEFAULT 0,
            PRIMARY KEY (conversation, position),
            UNIQUE (conversation, id)
        );
INSERT INTO "items" VALUES('talk',0,'said_1',X'7B226964223A2022736169645F31222C202274797065223A20226D657373616765227D',1800000000.0);
INSERT INTO "items" VALUES('talk',1,'said_2',X'7B226964223A2022736169645F32222C202274797065223A20226D657373616765227D',1800000000.0);
INSERT INTO "items" VALUES('talk',2,'said_3',X'7B226964223A2022736169645F33222C202274797065223A20226D657373616765227D',1800000000.0);
INSERT INTO "items" VALUES('talk',3,'said_4',X'7B226964223A2022736169645F34222C202274797065223A20226D657373616765227D',1800000000.0);
CREATE TABLE jobs (
            number integer PRIMARY KEY AUTOINCREMENT,
            id text NOT NULL UNIQUE,
            owner text NOT NULL,
            available_at double precision NOT NULL,
            worker text,
            attempt integer NOT NULL DEFAULT 0,
            cancel boolean NOT NULL DEFAULT false,
            request blob NOT NULL
        , given_back integer NOT NULL DEFAULT 0, begun_calls text NOT NULL DEFAULT '');
INSERT INTO "jobs" VALUES(2,'running','ada',1800000060.0,'old',1,0,X'7B226D6F64656C223A226D222C22696E707574223A224869227D',0,'');
INSERT INTO "jobs" VALUES(4,'queued','ada',1800000000.0,NULL,0,0,X'7B226D6F64656C223A226D222C22696E707574223A224869227D',0,'');
CREATE TABLE key_limits (name text PRIMARY KEY, limits blob NOT NULL);
CREATE TABLE renamed_owners (earlier text PRIMARY KEY, owner text NOT NULL);
CREATE TABLE response_items (
            item blob NOT NULL,
            response text NOT NULL REFERENCES responses (id) ON DELETE CASCADE,
            written_at double precision NOT NULL,
            PRIMARY KEY (item, response)
        ) WITHOUT ROWID;
INSERT INTO "response_items" VALUES(X'151781B2C89E44638DFD1A7BD6D77159','of_bob',1800000000.0);
INSERT INTO "response_items" VALUES(X'1FA1BDB502B377F5BC46C81D488EA242','of_bob',1800000000.0);
INSERT INTO "response_items" VALUES(X'232943225274ACD50C36FE5B2C368991','first',1800000000.0);
INSERT INTO "response_items" VALUES(X'32E2D9F72FD4369FD3B7C43E3D23E658','answer',1800000000.0);
INSERT INTO "response_items" VALUES(X'3E00F6578358291BFC79557A8769E006','finished',1800000000.0);
INSERT INTO "response_items" VALUES(X'4FA381D3A46A0DE57E7DB19C4F802A7B','queued',1800000000.0);
INSERT INTO "response_items" VALUES(X'5128C2CC08520F9E21326158B929B566','second',1800000000.0);
INSERT INTO "response_items" VALUES(X'5170D5B159F138905C19C12C052A0244','answer',1800000000.0);
INSERT INTO "response_items" VALUES(X'7B0A02F18CDD4AAA378B3E26719CD3D0','second',1800000000.0);
INSERT INTO "response_items" VALUES(X'9D7B9FADC1218F79EE397A2AF1DCF41D','cancelled',1800000000.0);
INSERT INTO "response_items" VALUES(X'BD74C3C4205B255A2F51A2B3A530D8C3','running',1800000000.0);
INSERT INTO "response_items" VALUES(X'F00E9C358E2F60D070D53D6E4BC739C5','first',1800000000.0);
INSERT INTO "response_items" VALUES(X'F9B6FFE5F2C1FBF15905C7956A4B1E71','finished',1800000000.0);
CREATE TABLE responses (
            id text PRIMARY KEY,
            owner text NOT NULL,
            created_at integer NOT NULL,
            expires_at integer NOT NULL,
            status text NOT NULL,
            parent text,
            conversation text,
            background boolean NOT NULL,
            attempt integer NOT NULL DEFAULT 0,
            input blob NOT NULL,
            output blob NOT NULL,
            settings blob NOT NULL
        , items_indexed boolean NOT NULL DEFAULT false, kept_after_end integer, items_indexed_by_time boolean NOT NULL DEFAULT false);
INSERT INTO "responses" VALUES('first','ada',1800000000,1802592000,'completed',NULL,NULL,0,0,X'5B7B226964223A2022696E5F6669727374222C202274797065223A20226D657373616765227D5D',X'5B7B226964223A20226F75745F6669727374222C202274797065223A20226D657373616765227D5D',X'7B226964223A20226669727374222C20226D6F64656C223A20226D227D',0,NULL,1);
INSERT INTO "responses" VALUES('second','ada',1800000000,1802592000,'completed','first',NULL,0,0,X'5B7B226964223A2022696E5F7365636F6E64222C202274797065223A20226D657373616765227D5D',X'5B7B226964223A20226F75745F7365636F6E64222C202274797065223A20226D657373616765227D5D',X'7B226964223A20227365636F6E64222C20226D6F64656C223A20226D227D',0,NULL,1);
INSERT INTO "responses" VALUES('of_bob','bob',1800000000,1802592000,'completed',NULL,NULL,0,0,X'5B7B226964223A2022696E5F6F665F626F62222C202274797065223A20226D657373616765227D5D',X'5B7B226964223A20226F75745F6F665F626F62222C202274797065223A20226D657373616765227D5D',X'7B226964223A20226F665F626F62222C20226D6F64656C223A20226D227D',0,NULL,1);
INSERT INTO "responses" VALUES('answer','ada',1800000000,1802592000,'completed',NULL,'talk',0,0,X'5B7B226964223A2022696E5F616E73776572222C202274797065223A20226D657373616765227D5D',X'5B7B226964223A20226F75745F616E73776572222C202274797065223A20226D657373616765227D5D',X'7B226964223A2022616E73776572222C20226D6F64656C223A20226D227D',0,NULL,1);
INSERT INTO "responses" VALUES('finished','ada',1800000000,1802592000,'completed',NULL,NULL,1,1,X'5B7B226964223A2022696E5F66696E6973686564222C202274797065223A20226D657373616765227D5D',X'5B7B226964223A20226F75745F66696E6973686564222C202274797065223A20226D657373616765227D5D',X'7B226964223A202266696E6973686564222C20226D6F64656C223A20226D227D',0,NULL,1);
INSERT INTO "responses" VALUES('running','ada',1800000000,1802592000,'in_progress',NULL,NULL,1,1,X'5B7B226964223A2022696E5F72756E6E696E67222C202274797065223A20226D657373616765227D5D',X'5B5D',X'7B226964223A202272756E6E696E67222C20226D6F64656C223A20226D227D',0,NULL,0);
INSERT INTO "responses" VALUES('cancelled','ada',1800000000,1802592000,'cancelled',NULL,NULL,1,0,X'5B7B226964223A2022696E5F63616E63656C6C6564222C202274797065223A20226D657373616765227D5D',X'5B5D',X'7B226964223A202263616E63656C6C6564222C20226D6F64656C223A20226D227D',0,NULL,0);
INSERT INTO "responses" VALUES('queued','ada',1800000000,1802592000,'queued',NULL,NULL,1,0,X'5B7B226964223A2022696E5F717565756564222C202274797065223A20226D657373616765227D5D',X'5B5D',X'7B226964223A2022717565756564222C20226D6F64656C223A20226D227D',0,NULL,0);
CREATE TABLE stored_keys (
        hash text PRIMARY KEY,
        name text NOT NULL,
        hint text NOT NULL,
        created_at integer NOT NULL,
        ends_at integer
    );
CREATE TABLE usage_entries (
        id text PRIMARY KEY,
        at integer NOT NULL,
        owner text NOT NULL,
        model text NOT NULL,
        channel text NOT NULL,
    requests integer NOT NULL,
    failures integer NOT NULL,
    input_tokens integer NOT NULL,
    cached_tokens integer NOT NULL,
    output_tokens integer NOT NULL,
    reasoning_tokens integer NOT NULL,
    tool_calls integer NOT NULL
    ) WITHOUT ROWID;
CREATE TABLE usage_sums (
        owner text NOT NULL,
        hour integer NOT NULL,
        model text NOT NULL,
        channel text NOT NULL,
    requests integer NOT NULL,
    failures integer NOT NULL,
    input_tokens integer NOT NULL,
    cached_tokens integer NOT NULL,
    output_tokens integer NOT NULL,
    reasoning_tokens integer NOT NULL,
    tool_calls integer NOT NULL,
        PRIMARY KEY (owner, hour, model, channel)
    ) WITHOUT ROWID;
CREATE TABLE webhook_deliveries (
        id text PRIMARY KEY,
        endpoint text NOT NULL,
        created_at integer NOT NULL,
        due_at double precision NOT NULL,
        attempts integer NOT NULL DEFAULT 0,
        body blob NOT NULL
    );
CREATE INDEX responses_by_expiry ON responses (expires_at);
CREATE INDEX conversations_by_expiry ON conversations (expires_at);
CREATE INDEX jobs_by_availability ON jobs (available_at, number);
CREATE INDEX response_items_by_response ON response_items (response);
CREATE INDEX responses_to_index ON responses (owner, id) WHERE NOT items_indexed;
CREATE INDEX items_by_id ON items (id);
CREATE INDEX deleted_responses_by_expiry ON deleted_responses (expires_at);
CREATE INDEX conversations_by_owner ON conversations (owner, id);
CREATE INDEX deleted_responses_by_owner ON deleted_responses (owner, id);
CREATE INDEX responses_by_owner_and_age ON responses (owner, created_at, id);
CREATE INDEX responses_by_age ON responses (created_at, id);
CREATE INDEX conversations_by_owner_and_age ON conversations (owner, created_at, id);
CREATE INDEX conversations_by_age ON conversations (created_at, id);
CREATE INDEX responses_not_stored ON responses (kept_after_end) WHERE kept_after_end IS NOT NULL;
CREATE INDEX usage_sums_by_hour ON usage_sums (hour);
CREATE INDEX stored_keys_by_name ON stored_keys (name);
CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (endpoint, due_at);
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);
CREATE INDEX responses_to_index_by_time ON responses (owner, id)
            WHERE NOT items_indexed AND NOT items_indexed_by_time;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',4);
COMMIT;
