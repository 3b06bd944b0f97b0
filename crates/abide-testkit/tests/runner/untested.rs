//! What a manifest says has no unit tests has none: cargo would not run them.

use std::fs;
use std::path::{Path, PathBuf};

/// The sources of the libraries and programs for which a manifest says `test = false`.
fn untested(package: &Path) -> Vec<PathBuf> {
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let mut sources = Vec::new();
    for section in manifest.split("\n[").filter(|section| section.contains("\ntest = false")) {
        let name = section.lines().find_map(|line| line.strip_prefix("name = "));
        match section.lines().next() {
            Some("lib]") => gather(&package.join("src"), &mut sources),
            Some("[bin]]") => {
                let name = name.unwrap().trim_matches('"');
                sources.push(package.join("src/bin").join(name).with_extension("rs"));
            }
            other => panic!("{}: `test = false` of {other:?}", package.display()),
        }
    }
    sources
}

/// The source files of a library.
fn gather(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            found.push(path);
        } else if !path.ends_with("src/bin") {
            gather(&path, found);
        }
    }
}

#[test]
fn what_is_said_to_have_no_tests_has_none() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for package in fs::read_dir(crates).unwrap() {
        for source in untested(&package.unwrap().path()) {
            seen += 1;
            let text = fs::read_to_string(&source).unwrap();
            for mark in ["#[test]", "proptest!", "cfg(test)"] {
                assert!(!text.contains(mark), "{} has a test that does not run", source.display());
            }
        }
    }
    assert!(seen > 10, "{seen}");
}
