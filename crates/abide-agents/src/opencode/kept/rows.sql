-- The session, its messages, each before its parts, and its to-dos. What a row says stands in the order of its
-- columns; data that is not JSON is a text. The columns in `none` are those that an older version of the
-- agent has not: a name that a table does not have is looked for in the query around it. A message names the
-- one before it, and a part what its message says of it.
SELECT record FROM (
    SELECT 0 AS place, 0 AS created, '' AS message, '' AS id, (
        SELECT json_object(
            'table', 'session', 'id', id, 'project_id', project_id, 'workspace_id', workspace_id,
            'parent_id', parent_id, 'slug', slug, 'directory', directory, 'path', path, 'title', title,
            'version', version, 'share_url', share_url, 'summary_additions', summary_additions,
            'summary_deletions', summary_deletions, 'summary_files', summary_files,
            'summary_diffs', summary_diffs, 'metadata', metadata, 'cost', cost,
            'tokens_input', tokens_input, 'tokens_output', tokens_output,
            'tokens_reasoning', tokens_reasoning, 'tokens_cache_read', tokens_cache_read,
            'tokens_cache_write', tokens_cache_write,
            'revert', json(CASE WHEN json_valid(revert) THEN revert ELSE json_quote(revert) END),
            'permission',
            json(CASE WHEN json_valid(permission) THEN permission ELSE json_quote(permission) END),
            'agent', agent,
            'model', json(CASE WHEN json_valid(model) THEN model ELSE json_quote(model) END),
            'time_created', time_created, 'time_updated', time_updated,
            'time_compacting', time_compacting, 'time_archived', time_archived)
        FROM session WHERE id = none.wanted
    ) AS record
    FROM (
        SELECT ?1 AS wanted, NULL AS workspace_id, NULL AS path, NULL AS share_url,
            NULL AS summary_additions, NULL AS summary_deletions, NULL AS summary_files,
            NULL AS summary_diffs, NULL AS metadata, NULL AS cost, NULL AS tokens_input,
            NULL AS tokens_output, NULL AS tokens_reasoning, NULL AS tokens_cache_read,
            NULL AS tokens_cache_write, NULL AS revert, NULL AS permission, NULL AS agent,
            NULL AS model, NULL AS time_compacting, NULL AS time_archived
    ) AS none
    UNION ALL
    SELECT 1, m.time_created, m.id, '', json_object(
        'table', 'message', 'id', m.id, 'session_id', m.session_id,
        'time_created', m.time_created, 'time_updated', m.time_updated,
        'after', lag(m.id) OVER (ORDER BY m.time_created, m.id),
        'data', json(CASE WHEN json_valid(m.data) THEN m.data ELSE json_quote(m.data) END))
    FROM message AS m WHERE m.session_id = ?1
    UNION ALL
    SELECT 1, m.time_created, m.id, p.id, json_object(
        'table', 'part', 'id', p.id, 'message_id', p.message_id, 'session_id', p.session_id,
        'time_created', p.time_created, 'time_updated', p.time_updated,
        'role', CASE WHEN json_valid(m.data) THEN json_extract(m.data, '$.role') END,
        'model', CASE WHEN json_valid(m.data) THEN json_extract(m.data, '$.modelID') END,
        'summary',
        coalesce(CASE WHEN json_valid(m.data) THEN json_type(m.data, '$.summary') END = 'true', 0),
        'data', json(CASE WHEN json_valid(p.data) THEN p.data ELSE json_quote(p.data) END))
    FROM message AS m JOIN part AS p ON p.message_id = m.id WHERE m.session_id = ?1
    UNION ALL
    SELECT 2, t.time_created, '', printf('%09d', t.position), json_object(
        'table', 'todo', 'id', t.session_id || '/' || t.position, 'session_id', t.session_id, 'content', t.content, 'status', t.status,
        'priority', t.priority, 'position', t.position,
        'time_created', t.time_created, 'time_updated', t.time_updated)
    FROM todo AS t WHERE t.session_id = ?1
)
WHERE record IS NOT NULL
ORDER BY place, created, message, id
