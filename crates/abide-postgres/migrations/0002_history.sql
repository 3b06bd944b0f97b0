-- History: what sessions are listed and searched by. All of it is derived from the events.

-- Nobody has the session open, and history has all of its events. Whoever takes the lease
-- makes it false.
ALTER TABLE lease ADD COLUMN at_rest boolean NOT NULL DEFAULT false;
CREATE INDEX lease_astir ON lease (sid) WHERE NOT at_rest;

CREATE TABLE overview (
    sid      bigint PRIMARY KEY REFERENCES session (sid) ON DELETE CASCADE,
    -- The last event that is in here.
    indexed  bigint NOT NULL,
    short    text COLLATE "C" NOT NULL,
    status   text   NOT NULL,
    -- In milliseconds.
    created  bigint NOT NULL,
    updated  bigint NOT NULL,
    -- How many files were changed.
    files    bigint NOT NULL DEFAULT 0,
    -- In lower case.
    agents   text[] NOT NULL,
    -- The names, and each with its value.
    labels   text[] NOT NULL,
    -- The rest, in JSON.
    overview text   NOT NULL
);
CREATE INDEX overview_updated ON overview (updated);
CREATE INDEX overview_short ON overview (short);
CREATE INDEX overview_agents ON overview USING gin (agents);
CREATE INDEX overview_labels ON overview USING gin (labels);

-- What was said: the words of events.
CREATE TABLE said (
    sid   bigint   NOT NULL REFERENCES session (sid) ON DELETE CASCADE,
    seq   bigint   NOT NULL,
    turn  bigint,
    words tsvector NOT NULL,
    -- The words in their order, where that is more than the vector can tell.
    text  text,
    PRIMARY KEY (sid, seq)
);
CREATE INDEX said_words ON said USING gin (words);

CREATE TABLE turn (
    sid        bigint NOT NULL REFERENCES session (sid) ON DELETE CASCADE,
    turn       bigint NOT NULL,
    agent      text   NOT NULL,
    role       text   NOT NULL,
    status     text   NOT NULL DEFAULT '',
    started    bigint NOT NULL,
    ended      bigint,
    tool_calls bigint NOT NULL DEFAULT 0,
    decision   text,
    reason     text,
    PRIMARY KEY (sid, turn)
);

CREATE TABLE path (
    pid  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Of the path, which may be longer than an index takes.
    hash bytea NOT NULL UNIQUE,
    path text  NOT NULL,
    -- As much of its beginning, and of its last part, as is looked for in an index.
    head text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL
);
CREATE INDEX path_head ON path (head);
CREATE INDEX path_name ON path (name);

CREATE TABLE touched (
    sid   bigint NOT NULL REFERENCES session (sid) ON DELETE CASCADE,
    pid   bigint NOT NULL REFERENCES path (pid),
    op    text   NOT NULL,
    count bigint NOT NULL,
    seq   bigint NOT NULL,
    turn  bigint,
    at    bigint NOT NULL,
    PRIMARY KEY (sid, pid, op)
);
CREATE INDEX touched_pid ON touched (pid, sid);
