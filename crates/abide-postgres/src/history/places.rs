//! Paths in the index: a file is found by its path, the end of its path, or a directory above it.

use abide_model::HistoryQuery;
use deadpool_postgres::Object;

use crate::error::ServerError;

/// The most characters of a path in an index.
const CHARACTERS: usize = 256;

/// Text for a column, which cannot hold the NUL character.
pub(super) fn storable_place_text(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

fn clipped_place(text: &str) -> String {
    text.chars().take(CHARACTERS).collect()
}

/// The indexed parts of a path: its beginning and its last component.
pub(super) fn head_and_name(path: &str) -> (String, String) {
    let path = path.trim_start_matches("./");
    (clipped_place(path), clipped_place(path.rsplit('/').next().unwrap_or_default()))
}

/// The paths that match.
pub(super) async fn wanted_places(client: &Object, wanted: &str) -> Result<Vec<i64>, ServerError> {
    let wanted = storable_place_text(wanted);
    let (head, name) = head_and_name(wanted.trim_end_matches('/'));
    let below = clipped_place(&format!("{head}/"));
    let behind = format!("{below}\u{10ffff}");
    let sql = "SELECT pid, path FROM path WHERE name = $1 OR (head >= $2 AND head <= $3)";
    let statement = client.prepare_cached(sql).await?;
    let mut found = Vec::new();
    for row in client.query(&statement, &[&name, &below, &behind]).await? {
        if HistoryQuery::fits_file(&wanted, row.try_get(1)?) {
            found.push(row.try_get(0)?);
        }
    }
    Ok(found)
}
