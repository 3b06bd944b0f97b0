-- Rows of `event` that cannot be read: a repair moves them here, as they are. An event that was recorded
-- before that names them as lost. Where a row was missing, an entry without a line says that the repair
-- was finished; an erasure takes the lines away and leaves the entries.
CREATE TABLE quarantine (
    sid    bigint NOT NULL REFERENCES session (sid) ON DELETE CASCADE,
    seq    bigint NOT NULL,
    repair text   NOT NULL,
    sum    bytea  NOT NULL,
    line   bytea  NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sid, seq, repair)
);
ALTER TABLE quarantine ALTER COLUMN line SET STATISTICS 0;
