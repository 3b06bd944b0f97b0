-- Sessions, their events, and who writes to them.

-- What holds for everybody who uses this store.
CREATE TABLE setting (
    name  text PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE session (
    sid        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         uuid   NOT NULL UNIQUE,
    -- The project that it belongs to; '' where none was told.
    project    text   NOT NULL DEFAULT '',
    -- The client's own name for it.
    key        text,
    -- A fork shares the events of its parent up to parent_seq.
    parent     bigint REFERENCES session (sid),
    parent_seq bigint NOT NULL DEFAULT 0,
    UNIQUE (project, key)
);
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;
CREATE INDEX session_project ON session (project, id);

-- The truth: one line of the journal a row, byte for byte as in a journal of files.
CREATE TABLE event (
    sid  bigint NOT NULL REFERENCES session (sid),
    seq  bigint NOT NULL,
    -- The sum of the line, by which a line that was sent twice is known.
    sum  bytea  NOT NULL,
    line bytea  NOT NULL,
    PRIMARY KEY (sid, seq)
);

-- Who writes to a session. An append is taken only with the epoch that stands here; each holder
-- has a greater one than all before.
CREATE TABLE lease (
    sid    bigint PRIMARY KEY REFERENCES session (sid),
    epoch  bigint NOT NULL DEFAULT 0,
    holder jsonb,
    -- This time of holding it, so that a question whose answer was lost can be asked again.
    tenure uuid,
    -- Until when, by this server's clock; none when nobody holds it.
    until  timestamptz
) WITH (fillfactor = 50);

-- The state of a session after an event, in a small root and in pages. Derived.
CREATE TABLE snapshot (
    sid  bigint PRIMARY KEY REFERENCES session (sid) ON DELETE CASCADE,
    seq  bigint NOT NULL,
    sum  bytea  NOT NULL,
    root bytea  NOT NULL,
    -- Pages below this number are of no use any more.
    first_page bigint NOT NULL
);
CREATE TABLE page (
    sid   bigint NOT NULL REFERENCES session (sid) ON DELETE CASCADE,
    place bigint NOT NULL,
    bytes bytea  NOT NULL,
    PRIMARY KEY (sid, place)
);

-- Immutable bytes, named by their BLAKE3.
CREATE TABLE object (
    hash  bytea  PRIMARY KEY,
    size  bigint NOT NULL,
    -- 0: as they are; 1: zstd.
    form  smallint NOT NULL,
    bytes bytea  NOT NULL
);
ALTER TABLE object ALTER COLUMN bytes SET STORAGE EXTERNAL;
