-- The sessions, and when each was changed last, in nanoseconds. In them are the numbers of the rows and the
-- length of the title, of which some changes leave the time as it was. What is written last is among the last
-- rows.
SELECT s.id, 1000000 * max(
    s.time_updated,
    coalesce((SELECT max(time_updated) FROM (
        SELECT time_updated FROM message WHERE session_id = s.id
        ORDER BY time_created DESC LIMIT 8)), 0),
    coalesce((SELECT max(time_updated) FROM (
        SELECT time_updated FROM part WHERE session_id = s.id
        ORDER BY rowid DESC LIMIT 32)), 0))
    + length(s.title)
    + (SELECT count(*) FROM message WHERE session_id = s.id)
    + (SELECT count(*) FROM part WHERE session_id = s.id)
FROM session AS s
ORDER BY s.time_created, s.id
