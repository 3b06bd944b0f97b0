//! Searches everything that was ever said in any session of a store: by words, prefixes and
//! phrases, and by the file that a session touched. The index is derived from the journals and
//! brought up to date by each query.

#![allow(clippy::print_stdout)]

use std::error::Error;

use abide::event::{FileOp, FileTouch};
use abide::history::Search;
use abide::{HistoryQuery, Message, NewSession, Store};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let project = tempfile::tempdir()?;
    let store = Store::open_or_init(project.path())?;
    let sessions = [
        ("Fix the parser", "The parser drops the last line of a file.", "src/parser.rs"),
        ("Speed up the tests", "The tests parse the same file again and again.", "tests/all.rs"),
        ("Write the manual", "Describe the options, one in a line.", "docs/manual.md"),
    ];
    for (title, request, path) in sessions {
        let session = store.create(NewSession::titled(title))?;
        session.append(Message::user(request))?.wait()?;
        let (path, op) = (path.to_owned(), FileOp::Write);
        session.append(FileTouch { path, op, to: None, before: None, after: None })?.wait()?;
        session.close()?;
    }

    for words in ["line", "pars*", "\"last line\""] {
        let query = HistoryQuery { search: Some(Search::parse(words)?), ..HistoryQuery::default() };
        println!("{words}:");
        for entry in store.history(&query)?.entries {
            let title = entry.overview.fields.title.unwrap_or_default();
            for found in entry.matches {
                println!("  {title}, @{}: {}", found.seq, found.excerpt.text);
            }
        }
    }
    let phrase = Some(Search::parse("\"last line\"")?);
    let found = store.history(&HistoryQuery { search: phrase, ..HistoryQuery::default() })?;
    assert_eq!(found.entries.len(), 1);

    let file = Some("parser.rs".to_owned());
    let found = store.history(&HistoryQuery { file, ..HistoryQuery::default() })?;
    let entry = found.entries.first().ok_or("a session touched it")?;
    assert_eq!(found.entries.len(), 1);
    println!("src/parser.rs was touched in session {}", entry.short);
    println!("{} sessions searched", store.sessions()?.len());
    Ok(())
}
