//! Every decoder over its corpus (`fuzz/corpus`) and over mutations of it, in-process.
//!
//! `ABIDE_SEED=N` gives other mutations; `ABIDE_FAULTS=third` and `ABIDE_FAULTS=full` give more of
//! them. `ABIDE_INPUT=FILE` runs only this file, on the targets that are named:
//! `ABIDE_INPUT=FILE cargo test -p abide-fuzz --test corpus line`.
//!
//! An input that fails a target is kept in `fuzz/artifacts`. Once the fault is mended, copy it to the
//! corpus, so that it is always tried.

mod seeds;
mod watch;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use abide_fuzz::mutation::Mutator;
use abide_fuzz::{TARGETS, Target};
use abide_testkit::FaultRun;
use watch::Watch;

macro_rules! tests {
    ($($name:ident: $controls:literal, $mutations:literal;)*) => {
        $(#[test]
        fn $name() {
            fuzz(Target::named(stringify!($name)).expect("a target"));
        })*
    };
}
abide_fuzz::each_target!(tests);

/// How many times the mutations of a small run.
fn size() -> u64 {
    FaultRun::from_env().count(1, 24)
}

fn seed() -> u64 {
    FaultRun::from_env().seed()
}

/// `fuzz/` in the repository.
fn fuzz_dir() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("the repository").join("fuzz")
}

/// The inputs of a target, by name, so that their order is the same everywhere.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let dir = fuzz_dir().join("corpus").join(target.name);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let paths: BTreeSet<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.iter().map(|path| fs::read(path).expect("an input")).collect()
}

fn fuzz(target: &Target) {
    if let Some(path) = std::env::var_os("ABIDE_INPUT") {
        (target.run)(&fs::read(path).expect("ABIDE_INPUT is a file"));
        return;
    }
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "no corpus");
    let (watch, left) = Watch::begin(target.name);
    if let Some(input) = left {
        let path = keep(target.name, &input);
        watch::say(&format!("an earlier run did not end with this input: {}", path.display()));
        run(target, &input, &watch);
    }
    // What begins with inputs that are refused at once goes nowhere.
    let taken = corpus.iter().filter(|input| run(target, input, &watch)).count();
    assert!(taken > 0, "the decoder takes no input of its corpus");
    // Other mutations for each target, and for each seed.
    let own = blake3::hash(format!("{} {}", target.name, seed()).as_bytes());
    let own = own.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let mut mutator = Mutator::new(&corpus, target.controls, own);
    let mutations = target.mutations * size();
    let taken = (0..mutations).filter(|_| run(target, &mutator.mutate(), &watch)).count() as u64;
    let all = corpus.len() as u64 + mutations;
    println!("{} decoder inputs: {all}, {} in 100 taken", target.name, 100 * taken / mutations);
}

/// Runs an input; says whether the decoder took anything of it.
fn run(target: &Target, input: &[u8], watch: &Watch) -> bool {
    watch.start(input);
    let panic = match catch_unwind(|| (target.run)(input)) {
        Ok(is_taken) => return is_taken,
        Err(panic) => panic,
    };
    let (name, seed) = (target.name, seed());
    let path = keep(name, input);
    let path = path.display();
    println!("{name}: {} bytes fail it: {path}", input.len());
    println!("  again: ABIDE_INPUT={path} cargo test -p abide-fuzz --test corpus {name}");
    let size =
        std::env::var("ABIDE_FAULTS").map_or(String::new(), |size| format!(" ABIDE_FAULTS={size}"));
    println!("  found by: ABIDE_SEED={seed}{size} cargo test -p abide-fuzz --test corpus {name}");
    println!("  keep it, once mended: cp {path} fuzz/corpus/{name}/");
    resume_unwind(panic);
}

/// Writes an input to `fuzz/artifacts`, or to the target directory where that cannot be written.
fn keep(name: &str, input: &[u8]) -> PathBuf {
    let hash = &blake3::hash(input).to_hex()[..16];
    let dirs = [fuzz_dir().join("artifacts"), PathBuf::from(env!("CARGO_TARGET_TMPDIR"))];
    let dirs = dirs.map(|dir| dir.join(name));
    // What fails because the code was broken on purpose is no find.
    let broken = usize::from(std::env::var_os("ABIDE_BREAK").is_some());
    let mut kept = dirs.iter().skip(broken).map(|dir| {
        let path = dir.join(hash);
        fs::create_dir_all(dir).and_then(|()| fs::write(&path, input)).map(|()| path)
    });
    kept.find_map(Result::ok).expect("a directory to write to")
}

#[test]
fn every_corpus_has_a_target() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let found = fs::read_dir(fuzz_dir().join("corpus")).expect("the corpus");
    let found = found.map(|entry| entry.expect("an entry").file_name().into_string());
    assert_eq!(found.collect::<Result<BTreeSet<_>, _>>(), Ok(names));
}

#[test]
fn the_same_seed_gives_the_same_inputs() {
    let corpus = corpus(Target::named("segment").expect("a target"));
    let inputs = |seed| {
        let mut mutator = Mutator::new(&corpus, 1, seed);
        (0..50).map(|_| mutator.mutate()).collect::<Vec<_>>()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
    let differ = inputs(1).iter().filter(|input| !corpus.contains(input)).count();
    assert!(differ > 40, "{differ} of 50 are mutated");
}
