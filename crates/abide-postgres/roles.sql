-- The roles of a shared store, for psql, run by whoever may make roles:
--
--     psql -v schema=abide -f roles.sql postgres://…/database
--
-- It may be run again at any time. People and machines get users of their own in one of the roles:
--
--     CREATE ROLE ada LOGIN PASSWORD '…' IN ROLE abide_writer;
--
-- Tables belong to abide_admin, so that the others are given rights to those that come later. A
-- user who makes or changes them acts as that role:
--
--     CREATE ROLE chief LOGIN PASSWORD '…' IN ROLE abide_admin;
--     ALTER ROLE chief SET role = 'abide_admin';

\if :{?schema}
\else
    \set schema abide
\endif

-- Makes and changes the tables, and is allowed everything else.
SELECT 'CREATE ROLE abide_admin NOLOGIN'
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'abide_admin') \gexec
-- Makes, writes and deletes sessions.
SELECT 'CREATE ROLE abide_writer NOLOGIN'
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'abide_writer') \gexec
-- Lists, reads and follows them.
SELECT 'CREATE ROLE abide_reader NOLOGIN'
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'abide_reader') \gexec

CREATE SCHEMA IF NOT EXISTS :"schema" AUTHORIZATION abide_admin;
GRANT USAGE ON SCHEMA :"schema" TO abide_writer, abide_reader;

GRANT SELECT ON ALL TABLES IN SCHEMA :"schema" TO abide_writer, abide_reader;
GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA :"schema" TO abide_writer;
ALTER DEFAULT PRIVILEGES FOR ROLE abide_admin IN SCHEMA :"schema"
    GRANT SELECT ON TABLES TO abide_writer, abide_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE abide_admin IN SCHEMA :"schema"
    GRANT INSERT, UPDATE, DELETE ON TABLES TO abide_writer;

-- Where the tables are there already, what a writer never does it may not: run this once more after
-- `abide store init` and `abide store migrate`. An event is never changed, an object never deleted
-- (to erase, to collect and to clean up is the admin's), what was erased stays known, what cannot be read
-- is set aside by the admin, and the version and the settings are the admin's.
SELECT format('REVOKE %s ON %I.%I FROM abide_writer', rights, :'schema', name)
    FROM (VALUES ('event', 'UPDATE'), ('session', 'UPDATE'), ('object', 'DELETE'),
        ('erased', 'INSERT, UPDATE, DELETE'), ('erasure', 'INSERT, UPDATE, DELETE'),
        ('collection', 'INSERT, UPDATE, DELETE'), ('condemned', 'INSERT, UPDATE, DELETE'),
        ('quarantine', 'INSERT, UPDATE, DELETE'), ('setting', 'INSERT, UPDATE, DELETE'),
        ('migration', 'INSERT, UPDATE, DELETE'))
        AS least (name, rights)
    WHERE to_regclass(format('%I.%I', :'schema', name)) IS NOT NULL \gexec
-- An append holds the mark of the objects in its place, which takes the right to change some column.
SELECT format('GRANT UPDATE (one) ON %I.collection TO abide_writer', :'schema')
    WHERE to_regclass(format('%I.collection', :'schema')) IS NOT NULL \gexec
