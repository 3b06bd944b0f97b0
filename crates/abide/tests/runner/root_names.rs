//! The root of the library stays small enough to read at a glance.

use std::path::Path;

/// The most names in the root, modules included.
const MOST: usize = 61;

#[test]
fn the_root_has_few_names() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let source = std::fs::read_to_string(path).unwrap();
    let names = root_names(&source);
    for known in ["Store", "Session", "aio", "tasks", "workspace"] {
        assert!(names.iter().any(|name| name == known), "{known} is not in {names:?}");
    }
    assert!(names.len() <= MOST, "{} names: {names:?}", names.len());
}

/// What `pub use` and `pub mod` at the start of a line name.
fn root_names(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in source.match_indices("\npub ") {
        let item = &source[at + 5..];
        if let Some(module) = item.strip_prefix("mod ") {
            let end = module.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap();
            names.push(module[..end].to_owned());
        } else if let Some(used) = item.strip_prefix("use ") {
            let used = &used[..used.find(';').unwrap()];
            let list = used.split_once('{').map_or(used, |(_, list)| list.trim_end_matches('}'));
            for one in list.split(',').map(str::trim).filter(|one| !one.is_empty()) {
                let name = one.rsplit(" as ").next().unwrap().rsplit("::").next().unwrap();
                names.push(name.to_owned());
            }
        }
    }
    names
}
