-- What a search asks of an event beside its words, when it happened, and the tokens that were spent.
-- History is derived from the events: it is made again, by the next question.
TRUNCATE overview, said, turn, touched;
UPDATE lease SET at_rest = false WHERE at_rest;

-- In milliseconds: when it happened.
ALTER TABLE said ADD COLUMN IF NOT EXISTS at bigint NOT NULL;

-- Usage: of what has an id, copies in other sessions count once.
CREATE TABLE IF NOT EXISTS spent (
    sid         bigint NOT NULL REFERENCES session (sid) ON DELETE CASCADE,
    -- By the provider; empty if it is not known.
    id          text COLLATE "C" NOT NULL,
    -- Quarters of an hour since 1970.
    span        bigint NOT NULL,
    model       text COLLATE "C" NOT NULL,
    input       bigint NOT NULL,
    output      bigint NOT NULL,
    cache_read  bigint NOT NULL,
    cache_write bigint NOT NULL,
    reasoning   bigint NOT NULL,
    PRIMARY KEY (sid, id, span, model)
);
