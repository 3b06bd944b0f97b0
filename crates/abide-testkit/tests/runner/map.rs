//! The map of the code (docs/architecture.md) against the tree, the table of capabilities against the
//! tests, and the size of the glossary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Crates that only develop and test the others: the map says what is in them, but may leave files
/// out.
const DEV: [&str; 5] =
    ["abide-bench", "abide-fuzz", "abide-powercut", "abide-sabotage", "abide-testkit"];
/// A newcomer should not have to learn more words than this.
const MOST_WORDS: usize = 60;
/// An event should not pass through more files than this.
const MOST_FILES: usize = 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The map, the names of the crates, and their source files, as paths below the root.
struct Tree {
    map: String,
    crates: BTreeSet<String>,
    sources: BTreeSet<String>,
}

impl Tree {
    fn read() -> Self {
        let root = root();
        let map = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
        let (mut crates, mut sources) = (BTreeSet::new(), BTreeSet::new());
        for entry in std::fs::read_dir(root.join("crates")).unwrap() {
            let dir = entry.unwrap().path();
            if dir.join("Cargo.toml").exists() {
                crates.insert(dir.file_name().unwrap().to_str().unwrap().to_owned());
                gather(&root, &dir.join("src"), &mut sources);
            }
        }
        assert!(crates.len() > 15 && sources.len() > 400, "this is not the tree");
        Self { map, crates, sources }
    }

    /// The section of the map under a heading, up to the next one of its level or above.
    fn section(&self, heading: &str) -> Option<&str> {
        let start = self.map.find(&format!("\n{heading}\n"))? + heading.len() + 2;
        let rest = &self.map[start..];
        let level = heading.chars().take_while(|c| *c == '#').count();
        let ends = (1..=level).filter_map(|level| rest.find(&format!("\n{} ", "#".repeat(level))));
        Some(&rest[..ends.min().unwrap_or(rest.len())])
    }
}

fn gather(root: &Path, dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "tests" {
                gather(root, &path, found);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "lib.rs" {
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
}

/// The paths among the words in backticks: names of source files, and folders.
fn paths(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let file = [".rs", ".toml", ".sql"].iter().any(|end| word.ends_with(end));
        (file || word.ends_with('/')) && word.chars().all(plain)
    };
    quoted.filter(is_path).collect()
}

/// Where a path of the map leads, below the root. `..` is the crate beside its `src`.
fn resolve(root: &Path, bases: &[String], path: &str) -> Option<String> {
    let mut candidates = bases.iter().map(|base| match path.strip_prefix("../") {
        Some(above) => format!("{}{above}", base.strip_suffix("src/").unwrap_or(base)),
        None => format!("{base}{path}"),
    });
    candidates.find(|path| match path.strip_suffix('/') {
        Some(folder) => root.join(folder).is_dir(),
        None => root.join(path).is_file(),
    })
}

/// The paths that a crate's section names, as paths below the root, and those that lead nowhere.
fn named(root: &Path, name: &str, section: &str) -> (BTreeSet<String>, Vec<String>) {
    let src = format!("crates/{name}/src/");
    let (mut found, mut stale) = (BTreeSet::new(), Vec::new());
    for line in section.lines() {
        // The first column names files; the second may tell what is in a folder of the first.
        let mut cells = line.strip_prefix('|').unwrap_or(line).splitn(2, " | ");
        let first = cells.next().unwrap_or_default();
        let in_row = line.starts_with('|');
        let mut folders = Vec::new();
        for path in paths(first) {
            let bases = match in_row {
                true => vec![src.clone()],
                false => vec![src.clone(), "crates/".to_owned(), String::new()],
            };
            match resolve(root, &bases, path) {
                Some(path) => {
                    folders.extend(path.ends_with('/').then(|| path.clone()));
                    found.insert(path);
                }
                None => stale.push(format!("{name}: {path}")),
            }
        }
        // Settings files of stores are named there too.
        let told = paths(cells.next().unwrap_or_default()).into_iter();
        for path in told.filter(|path| path.ends_with(".rs") || path.ends_with('/')) {
            let mut bases = folders.clone();
            bases.extend([src.clone(), String::new()]);
            if resolve(root, &bases, path).is_none() {
                stale.push(format!("{name}: {path} (in the text)"));
            }
        }
    }
    (found, stale)
}

#[test]
fn the_map_names_what_is_there_and_all_of_it() {
    let (root, tree) = (root(), Tree::read());
    let (mut stale, mut missing) = (Vec::new(), Vec::new());
    let diagram = tree.section("## Crates").unwrap();
    for name in &tree.crates {
        if !diagram.lines().any(|line| line.split(' ').next() == Some(name)) {
            missing.push(format!("{name} (in the list of crates)"));
        }
        let Some(section) = tree.section(&format!("### {name}")) else {
            missing.push(format!("{name} (its section)"));
            continue;
        };
        let (found, gone) = named(&root, name, section);
        stale.extend(gone);
        if DEV.contains(&name.as_str()) {
            continue;
        }
        let src = format!("crates/{name}/src/");
        let sources = tree.sources.iter().filter(|path| path.starts_with(&src));
        let covered = |path: &&String| {
            found
                .iter()
                .any(|named| *path == named || (named.ends_with('/') && path.starts_with(named)))
        };
        missing.extend(sources.filter(|path| !covered(path)).cloned());
    }
    let headings = tree.section("## The files").unwrap().lines();
    for name in headings.filter_map(|line| line.strip_prefix("### ")) {
        if !tree.crates.contains(name) {
            stale.push(format!("{name}: there is no such crate"));
        }
    }
    assert!(stale.is_empty(), "the map names what is not there: {stale:#?}");
    assert!(missing.is_empty(), "the map does not name: {missing:#?}");
}

#[test]
fn the_journeys_pass_through_files_that_exist() {
    let (root, tree) = (root(), Tree::read());
    let journeys = tree.map.lines().filter(|line| line.starts_with("## Journey of "));
    let mut count = 0;
    for heading in journeys {
        count += 1;
        let mut files = BTreeSet::new();
        let steps = tree.section(heading).unwrap();
        // Within a journey a file that was named in full goes by its name.
        for path in paths(steps) {
            if path.contains("/src/") {
                let there = root.join("crates").join(path).is_file();
                assert!(there, "{heading}: there is no {path}");
                files.insert(path);
            } else if path.ends_with(".rs") {
                let known = files.iter().any(|file| file.ends_with(&format!("/{path}")));
                assert!(known, "{heading}: {path} was not named before");
            }
        }
        assert!(files.len() > 10, "{heading}: {files:?}");
        if heading.contains("abide record") {
            let numbered = steps.split("\n\nBeside").next().unwrap();
            let named = paths(numbered).into_iter().filter(|path| path.contains("/src/"));
            let files: BTreeSet<_> = named.collect();
            assert!(files.len() <= MOST_FILES, "{} files: {files:#?}", files.len());
        }
    }
    assert_eq!(count, 3);
}

#[test]
fn the_glossary_is_short_and_no_word_has_two_meanings() {
    let glossary = std::fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let rows =
        glossary.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Word"));
    let words: Vec<_> = rows
        .filter(|row| !row.starts_with("| ---"))
        .map(|row| row.split('|').nth(1).unwrap().trim())
        .collect();
    assert!(!words.is_empty() && words.len() <= MOST_WORDS, "{} words", words.len());
    let mut seen = BTreeSet::new();
    let twice: Vec<_> = words.iter().filter(|word| !seen.insert(**word)).collect();
    assert!(twice.is_empty(), "words with two meanings: {twice:?}");
}

#[test]
fn every_capability_names_a_test_that_is_there() {
    let root = root();
    let table = std::fs::read_to_string(root.join("docs/capabilities.md")).unwrap();
    let rows: Vec<_> = table
        .lines()
        .filter(|line| {
            line.starts_with("| ") && !line.starts_with("| Cap") && !line.starts_with("| ---")
        })
        .collect();
    assert!(rows.len() > 40, "{} capabilities", rows.len());
    for row in rows {
        let cell = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap();
        let name = cell.trim_matches('`');
        let (module, test) = name.rsplit_once("::").unwrap();
        let file = root.join("crates/abide-cli/tests").join(module.replace("::", "/") + ".rs");
        let tests = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(tests.contains(&format!("#[test]\nfn {test}() {{")), "there is no {name}: {row}");
    }
}
