-- Objects that nothing names are removed. Whoever stores objects holds an advisory lock from the
-- first one to the acknowledged event that names them, and remembers this mark. A collection holds the
-- lock alone and changes the mark before it removes anything.
CREATE TABLE collection (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    mark uuid NOT NULL
);
INSERT INTO collection (mark) VALUES (gen_random_uuid());

-- Objects outside the database whose removal has begun: nobody stores one again before it has ended,
-- or long after.
CREATE TABLE condemned (
    hash  bytea PRIMARY KEY,
    -- Of the collection that removes it.
    mark  uuid NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Erasures that have begun and are not finished. They name events and objects, and hold no payload.
CREATE TABLE erasure (
    id     uuid PRIMARY KEY,
    begun  timestamptz NOT NULL DEFAULT now(),
    plan   jsonb NOT NULL
);

-- One that was just stored is not removed.
ALTER TABLE object ADD COLUMN stored timestamptz NOT NULL DEFAULT now();

-- The server keeps no samples of what may be erased; changing the type drops those that it has.
ALTER TABLE event ALTER COLUMN line TYPE bytea, ALTER COLUMN line SET STATISTICS 0;
ALTER TABLE object ALTER COLUMN bytes TYPE bytea, ALTER COLUMN bytes SET STATISTICS 0;
ALTER TABLE snapshot ALTER COLUMN root TYPE bytea, ALTER COLUMN root SET STATISTICS 0;
ALTER TABLE page ALTER COLUMN bytes TYPE bytea, ALTER COLUMN bytes SET STATISTICS 0;
ALTER TABLE said ALTER COLUMN text TYPE text, ALTER COLUMN text SET STATISTICS 0;
ALTER TABLE said ALTER COLUMN words TYPE tsvector, ALTER COLUMN words SET STATISTICS 0;
ALTER TABLE overview ALTER COLUMN outline TYPE text, ALTER COLUMN outline SET STATISTICS 0;
ALTER TABLE turn ALTER COLUMN decision TYPE text, ALTER COLUMN decision SET STATISTICS 0;
ALTER TABLE turn ALTER COLUMN reason TYPE text, ALTER COLUMN reason SET STATISTICS 0;

-- A program of before that still runs takes no lock: it must not name objects any more.
CREATE FUNCTION program_is_known() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('abide.tables', true), '') = '' THEN
        RAISE EXCEPTION 'this program is older than the tables of the store';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER program_is_known BEFORE INSERT ON event
    FOR EACH STATEMENT EXECUTE FUNCTION program_is_known();
