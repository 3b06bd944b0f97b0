//! Breaks the code on purpose, one way after the other, and sees whether a test notices.
//!
//! Works on a copy of the tree below the target directory. A break that does not compile, or
//! whose text is not found, is a fault of the list and fails the run as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

#[derive(Deserialize)]
struct List {
    #[serde(rename = "break")]
    breaks: Vec<Break>,
}

#[derive(Deserialize)]
struct Break {
    name: String,
    file: PathBuf,
    find: String,
    replace: String,
    tests: Vec<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let list = fs::read_to_string(root.join("crates/abide-testkit/sabotage.toml"))?;
    let List { breaks } = toml::from_str(&list)?;
    let only = std::env::args().nth(1);
    let place = root.join("target/sabotage");
    let tree = place.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    copy(&root.join("crates"), &tree.join("crates"))?;
    for file in ["Cargo.toml", "Cargo.lock"] {
        fs::copy(root.join(file), tree.join(file))?;
    }
    let (mut caught, mut missed) = (0, 0);
    for (number, one) in breaks.iter().enumerate() {
        if only.as_ref().is_some_and(|only| !one.name.contains(only.as_str())) {
            continue;
        }
        let verdict = attempt(&tree, &place.join("build"), one)?;
        println!(
            "{:>2}. {}: {}",
            number + 1,
            one.name,
            verdict.as_ref().map_or_else(|why| why.clone(), |()| "caught".to_owned())
        );
        match verdict {
            Ok(()) => caught += 1,
            Err(_) => missed += 1,
        }
    }
    println!("sabotage: {caught} caught, {missed} not");
    Ok(missed == 0 && caught > 0)
}

/// `Ok` when the break is caught; otherwise why it was not.
fn attempt(
    tree: &Path,
    build: &Path,
    one: &Break,
) -> Result<Result<(), String>, Box<dyn std::error::Error>> {
    let path = tree.join(&one.file);
    let whole = fs::read_to_string(&path)?;
    if whole.matches(one.find.as_str()).count() != 1 {
        return Ok(Err("NOT APPLIED: its text does not stand exactly once in the file".to_owned()));
    }
    fs::write(&path, whole.replacen(one.find.as_str(), &one.replace, 1))?;
    let test = |arguments: &[&str]| {
        Command::new(env!("CARGO"))
            .arg("test")
            .args(arguments)
            .args(&one.tests)
            .current_dir(tree)
            .env("CARGO_TARGET_DIR", build)
            // Nobody debugs these builds, and linking is most of the work.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    };
    let compiles = test(&["--no-run"])?.success();
    let passes = compiles && test(&[])?.success();
    fs::write(&path, whole)?;
    Ok(match (compiles, passes) {
        (false, _) => Err("NOT APPLIED: it does not compile".to_owned()),
        (true, true) => Err("NOT CAUGHT".to_owned()),
        (true, false) => Ok(()),
    })
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
