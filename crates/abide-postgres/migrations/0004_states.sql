-- Overviews hold the last run of a session and who wrote to it.
-- History is derived from the events: it is made again, by the next question.
TRUNCATE overview, said, turn, touched;
-- A program of before that still runs must not write overviews that lack it.
ALTER TABLE overview RENAME COLUMN overview TO outline;
UPDATE lease SET at_rest = false WHERE at_rest;
