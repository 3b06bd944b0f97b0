//! Random changes: what is remembered never makes a snapshot differ.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use crate::{Lab, on_disk};

#[derive(Debug, Clone)]
enum Step {
    Write(u8, u8, u16),
    Directory(u8),
    Remove(u8),
    Rename(u8, u8),
    Mode(u8, u16),
    Link(u8, u8),
    Snapshot,
    Wait,
}

/// One of a few paths, so that steps meet.
fn path(number: u8) -> PathBuf {
    const NAMES: [&str; 5] = ["a", "b", "c", "d.txt", "e"];
    let mut path = PathBuf::new();
    let mut rest = usize::from(number);
    for _ in 0..=(number % 3) {
        path.push(NAMES[rest % 5]);
        rest /= 5;
    }
    path
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![Just(0o600), Just(0o644), Just(0o755), Just(0o4711)];
    prop_oneof![
        4 => (any::<u8>(), any::<u8>(), 0u16..64).prop_map(|(a, b, c)| Step::Write(a, b, c)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Write(a, b, 2000)),
        2 => any::<u8>().prop_map(Step::Directory),
        2 => any::<u8>().prop_map(Step::Remove),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Rename(a, b)),
        1 => (any::<u8>(), mode).prop_map(|(a, b)| Step::Mode(a, b)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Link(a, b)),
        4 => Just(Step::Snapshot),
        1 => Just(Step::Wait),
    ]
}

/// Does a step. That it may be impossible is part of the play.
fn play(lab: &Lab, step: &Step) {
    let at = |number: &u8| lab.path(path(*number));
    match step {
        Step::Write(place, byte, kilobytes) => {
            // A large file now and then, else a few bytes.
            let length = if *kilobytes < 64 { usize::from(*kilobytes) } else { 1_300_000 };
            let _ = fs::write(at(place), vec![*byte; length]);
        }
        Step::Directory(place) => drop(fs::create_dir_all(at(place))),
        Step::Remove(place) => {
            let _ = fs::remove_file(at(place));
            let _ = fs::remove_dir_all(at(place));
        }
        Step::Rename(from, to) => drop(fs::rename(at(from), at(to))),
        Step::Mode(place, mode) => {
            let path = at(place);
            let metadata = path.symlink_metadata();
            let mode = match metadata {
                Ok(metadata) if metadata.is_dir() => u32::from(*mode) | 0o700,
                Ok(metadata) if metadata.is_file() => u32::from(*mode),
                _ => return,
            };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        Step::Link(place, target) => drop(symlink(path(*target), at(place))),
        Step::Snapshot => {
            let taken = lab.take();
            assert_eq!(lab.content(&taken), on_disk(&lab.root()));
            assert_eq!(lab.take_anew().hash, taken.hash);
        }
        Step::Wait => crate::settle(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_is_what_is_there(steps in proptest::collection::vec(step(), 1..60), young: bool) {
        let mut lab = Lab::new();
        if young {
            lab.settle = Duration::from_secs(35);
        }
        for step in &steps {
            play(&lab, step);
        }
        play(&lab, &Step::Snapshot);
        crate::settle();
        play(&lab, &Step::Snapshot);
        play(&lab, &Step::Snapshot);
        let again = lab.take();
        prop_assert!(again.unchanged);
        prop_assert_eq!(again.stored_objects, 0);
    }
}
