-- Events whose data was erased here: an older bundle does not bring it back, also after the session
-- was removed.
CREATE TABLE erased (
    session uuid NOT NULL,
    seq bigint NOT NULL,
    sum bytea NOT NULL,
    PRIMARY KEY (session, seq, sum)
);
