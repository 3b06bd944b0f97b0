//! Takes a table or a value out of a TOML text, and leaves comments, order and all else.

use toml_edit::{DocumentMut, Item, RawString, Table, TableLike};

/// The text without what these keys lead to. `None` if there is none, or it is no TOML.
pub(super) fn without_table(text: &str, keys: &[String]) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let (last, above) = keys.split_last()?;
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for key in above {
        table = table.get_mut(key)?.as_table_like_mut()?;
    }
    let removed = table.remove(last)?;
    let mut comments = Vec::new();
    if let Item::Table(removed) = &removed {
        gather_comments(removed, &mut comments);
    }
    keep_comments(&mut document, comments);
    Some(document.to_string())
}

/// Is there a line that begins the table to which these keys lead?
pub(super) fn has_header(text: &str, keys: &[String]) -> bool {
    let document: Option<DocumentMut> = text.parse().ok();
    document.is_some_and(|mut document| {
        table_of(&mut document, keys).is_some_and(|table| !table.is_implicit())
    })
}

/// The text without the line that begins a table in which only other tables stand. `None` if there is
/// none.
pub(super) fn without_header(text: &str, keys: &[String]) -> Option<String> {
    let mut document: DocumentMut = text.parse().ok()?;
    let table = table_of(&mut document, keys)?;
    if table.is_implicit() || table.is_empty() || table.iter().any(|(_, item)| !item.is_table()) {
        return None;
    }
    let comments = comment_above(table).into_iter().collect();
    table.set_implicit(true);
    keep_comments(&mut document, comments);
    Some(document.to_string())
}

/// What stands above the line that begins a table, and where in the text that is: a comment there belongs
/// to the table as it is read, but is a person's.
type CommentAbove = (isize, String);

fn comment_above(table: &Table) -> Option<CommentAbove> {
    let above = table.decor().prefix().and_then(RawString::as_str)?;
    above.contains('#').then(|| Some((table.position()?, above.to_owned())))?
}

/// Those above a table and the tables in it.
fn gather_comments(table: &Table, found: &mut Vec<CommentAbove>) {
    if !table.is_implicit() {
        found.extend(comment_above(table));
    }
    for inner in table.iter().filter_map(|(_, item)| item.as_table()) {
        gather_comments(inner, found);
    }
}

/// Puts comments above the tables that come next in the text, or at its end.
fn keep_comments(document: &mut DocumentMut, mut comments: Vec<CommentAbove>) {
    comments.sort_unstable();
    for (position, comment) in comments.into_iter().rev() {
        let mut next = None;
        each_table(document.as_table_mut(), &mut |table| {
            let at = table.position().filter(|at| *at > position);
            next = at.into_iter().chain(next).min();
        });
        let Some(next) = next else {
            let below = document.trailing().as_str().unwrap_or_default();
            let all = format!("{comment}{below}");
            document.set_trailing(all);
            continue;
        };
        each_table(document.as_table_mut(), &mut |table| {
            if table.position() == Some(next) {
                let below = table.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
                let all = format!("{comment}{below}");
                table.decor_mut().set_prefix(all);
            }
        });
    }
}

/// Calls this with each table in a table that a line of its own begins.
fn each_table(table: &mut Table, call: &mut dyn FnMut(&mut Table)) {
    for (_, item) in table.iter_mut() {
        let inner: Vec<&mut Table> = match item {
            Item::Table(inner) => vec![inner],
            Item::ArrayOfTables(all) => all.iter_mut().collect(),
            _ => Vec::new(),
        };
        for inner in inner {
            if !inner.is_implicit() && !inner.is_dotted() {
                call(inner);
            }
            each_table(inner, call);
        }
    }
}

fn table_of<'a>(document: &'a mut DocumentMut, keys: &[String]) -> Option<&'a mut Table> {
    keys.iter().try_fold(document.as_table_mut(), |table, key| table.get_mut(key)?.as_table_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_goes_and_comments_and_order_stay() {
        let before =
            "# mine\nmodel = \"x\" # nice\n\n[projects.\"/p\"]\ntrust_level = \"trusted\"\n";
        let ours = "\n[hooks.state.\"abide@abide:a\"]\ntrusted_hash = \"1\"\n";
        let after = "\n# theirs\n[hooks.state.\"/h:b\"]\ntrusted_hash = \"2\"\n";
        let keys = ["hooks", "state", "abide@abide:a"].map(str::to_owned);
        let text = [before, ours, after].concat();
        assert_eq!(without_table(&text, &keys).unwrap(), [before, after].concat());
        assert_eq!(without_table(before, &keys), None);
        assert_eq!(without_table("a = ", &keys), None);
    }

    #[test]
    fn a_header_goes_where_only_tables_stand_below_it() {
        let keys = ["hooks", "state"].map(str::to_owned);
        let text = "a = 1\n\n[hooks.state]\n\n[hooks.state.b]\nc = 2\n";
        assert!(has_header(text, &keys));
        let shorter = without_header(text, &keys).unwrap();
        assert_eq!(shorter, "a = 1\n\n[hooks.state.b]\nc = 2\n");
        assert!(!has_header(&shorter, &keys));
        assert_eq!(without_header(&shorter, &keys), None);
        assert_eq!(without_header("[hooks.state]\nd = 1\n[hooks.state.b]\n", &keys), None);
    }

    #[test]
    fn comments_above_a_table_stay_where_they_are() {
        let keys = |keys: &str| keys.split('/').map(str::to_owned).collect::<Vec<_>>();
        let first =
            "a = 1\n\n# about the plugin\n[p]\nb = 1\n# last words\n\n# about q\n[q.r]\nc = 1\n";
        assert_eq!(
            without_table(first, &keys("p")).unwrap(),
            "a = 1\n\n# about the plugin\n# last words\n\n# about q\n[q.r]\nc = 1\n"
        );
        assert_eq!(
            without_table(first, &keys("q/r")).unwrap(),
            "a = 1\n\n# about the plugin\n[p]\nb = 1\n# last words\n\n# about q\n"
        );
        let inner = "# one\n[p]\n# two\n[p.q]\nb = 1\n[[r]]\n# three\n[s]\n";
        assert_eq!(
            without_table(inner, &keys("p")).unwrap(),
            "# one\n# two\n[[r]]\n# three\n[s]\n"
        );
        let header = "# one\n[p]\n# two\n[p.q]\nb = 1\n";
        assert_eq!(without_header(header, &keys("p")).unwrap(), "# one\n# two\n[p.q]\nb = 1\n");
    }
}
