-- Overviews hold what a session is named by: the first prompt of a person and the command of a run.
-- History is derived from the events: it is made again, by the next question.
TRUNCATE overview, said, turn, touched;
UPDATE lease SET at_rest = false WHERE at_rest;
