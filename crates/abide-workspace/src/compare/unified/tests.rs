//! Patches beside those of git, and applied by it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;
use crate::diff;
use crate::sample::{SampleHeap, SampleNode, directory, file, link};

fn text(old: &SampleNode, new: &SampleNode) -> (String, Vec<DiffStat>) {
    let heap = SampleHeap::default();
    let (old, new) = (old.store(&heap), new.store(&heap));
    let mut text = Vec::new();
    let mut stats = Vec::new();
    for changed in diff(&heap, Some(old), new, true).unwrap() {
        let diff = unified(&heap, &changed, 3).unwrap();
        assert_eq!(stat(&heap, &changed).unwrap(), diff.stat);
        text.extend(diff.text);
        stats.push(diff.stat);
    }
    (String::from_utf8(text).unwrap(), stats)
}

/// What git itself prints for the same files, without the lines that name its own objects.
fn printed_by_git(old: &SampleNode, new: &SampleNode) -> Option<String> {
    let room = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| git(room.path(), args, b"");
    let (status, _) = git(&["init", "-q"])?;
    assert!(status);
    old.make(&room.path().join("w"));
    git(&["add", "-Af"]);
    git(&["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m"]);
    fs::remove_dir_all(room.path().join("w")).unwrap();
    new.make(&room.path().join("w"));
    git(&["add", "-Af"]);
    let (_, text) = git(&["diff", "--cached", "-M", "--relative=w", "--diff-algorithm=histogram"])?;
    let text = String::from_utf8(text).unwrap();
    let kept = text.split_inclusive('\n').filter(|line| !line.starts_with("index "));
    Some(kept.collect())
}

/// Runs git where it is installed: did it go well, and what did it print?
fn git(at: &Path, args: &[&str], input: &[u8]) -> Option<(bool, Vec<u8>)> {
    use std::io::Write;
    let mut child = Command::new("git")
        .args(args)
        .current_dir(at)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", at)
        .env_remove("GIT_DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    Some((output.status.success(), output.stdout))
}

fn trees() -> (SampleNode, SampleNode) {
    let long = |changed: &[u32]| {
        let line = |n: u32| {
            let mark = if changed.contains(&n) { " changed" } else { "" };
            if n.is_multiple_of(10) {
                format!("fn f{n}(){mark} {{\n")
            } else {
                format!("    {n}{mark}\n")
            }
        };
        (0..60).map(line).collect::<String>()
    };
    let old = directory([
        ("binary", file("a\0b")),
        ("edited", file(&long(&[]))),
        ("end", file("no newline")),
        ("gone", file("g\n")),
        ("kind", file("k\n")),
        ("link", link("a")),
        ("mode", file("m\n")),
        ("moved from", file(&long(&[3]))),
        ("sp ace", file("1\n")),
        ("tab\t\"\u{e9}", file("1\n")),
        ("to-dir", file("x\n")),
    ]);
    let new = directory([
        ("binary", file("a\0c")),
        ("edited", file(&long(&[5, 7, 30, 59]))),
        ("end", file("no newline\nstill none")),
        ("kind", link("k")),
        ("link", link("b")),
        ("made", directory([("x", file("x")), ("empty", file(""))])),
        ("mode", file("m\n").with_mode(0o755)),
        ("moved to", file(&long(&[3, 8]))),
        ("sp ace", file("2\n")),
        ("tab\t\"\u{e9}", file("2\n")),
        ("to-dir", directory([("y", file("y\n"))])),
    ]);
    (old, new)
}

#[test]
fn the_text_is_as_git_prints_it() {
    let (old, new) = trees();
    let (text, stats) = text(&old, &new);
    let index = text.lines().filter(|line| line.starts_with("index ")).count();
    assert_eq!(index, 0);
    for part in ["Binary files a/binary and b/binary differ\n", "--- a/sp ace\t\n"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.contains("diff --git \"a/tab\\t\\\"\\303\\251\" \"b/tab\\t\\\"\\303\\251\"\n"));
    assert!(text.contains("rename from moved from\nrename to moved to\n"));
    assert!(stats.contains(&DiffStat { insertions: 4, deletions: 4, binary: false }));
    if let Some(git) = printed_by_git(&old, &new) {
        let plain = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with("similarity index "));
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        assert_eq!(plain(&text), plain(&git));
    }
}

#[test]
fn a_binary_file_that_moved_and_changed_says_how_alike_it_is() {
    let bytes = |last: &str| file(&format!("\0{}{last}", "0123456789\n".repeat(9)));
    let (text, stats) = text(&directory([("a", bytes("x"))]), &directory([("b", bytes("y"))]));
    let expected = "diff --git a/a b/b\nsimilarity index 99%\nrename from a\nrename to b\n\
                    Binary files a/a and b/b differ\n";
    assert_eq!(text, expected);
    assert_eq!(stats, [DiffStat { insertions: 0, deletions: 0, binary: true }]);
}

#[test]
fn git_applies_the_text() {
    let (SampleNode::Directory(mut old, _), SampleNode::Directory(mut new, _)) = trees() else {
        unreachable!("trees are directories")
    };
    old.remove(&b"binary"[..]);
    new.remove(&b"binary"[..]);
    let (old, new) = (SampleNode::Directory(old, 0o755), SampleNode::Directory(new, 0o755));
    let room = tempfile::tempdir().unwrap();
    old.make(room.path());
    let (text, _) = text(&old, &new);
    if let Some((applied, _)) = git(room.path(), &["apply", "-"], text.as_bytes()) {
        assert!(applied, "{text}");
        assert_eq!(SampleNode::look(room.path()), new);
    }
}

#[test]
fn a_large_file_is_compared_by_its_hash() {
    let heap = SampleHeap::default();
    let entry = |hash: &[u8], size| TreeEntry {
        name: b"f".to_vec(),
        kind: EntryKind::Large,
        mode: 0o644,
        size,
        hash: abide_model::ObjectHash::of(hash),
    };
    let changed = ChangedPath {
        path: b"f".to_vec(),
        change: ChangeKind::Modified,
        old: Some(entry(b"1", 9 << 20)),
        new: Some(entry(b"2", 9 << 20)),
    };
    let diff = unified(&heap, &changed, 3).unwrap();
    let expected: &[u8] = b"diff --git a/f b/f\nBinary files a/f and b/f differ\n";
    assert_eq!((diff.text.as_slice(), diff.stat.binary), (expected, true));
}

fn lines() -> impl Strategy<Value = String> {
    ("([abc]{0,2}\n){0,30}", "[ab]{0,1}").prop_map(|(lines, last)| lines + &last)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn git_applies_any_edit(old in lines(), new in lines(), context in 1..4_usize) {
        let heap = SampleHeap::default();
        let (a, b) = (directory([("f g", file(&old))]), directory([("f g", file(&new))]));
        let room = tempfile::tempdir().unwrap();
        a.make(room.path());
        for changed in diff(&heap, Some(a.store(&heap)), b.store(&heap), false).unwrap() {
            let diff = unified(&heap, &changed, context).unwrap();
            let applied = git(room.path(), &["apply", "--whitespace=nowarn", "-"], &diff.text);
            if let Some((applied, _)) = applied {
                prop_assert!(applied, "{}", String::from_utf8_lossy(&diff.text));
                prop_assert_eq!(fs::read_to_string(room.path().join("f g")).unwrap(), new.as_str());
            }
        }
    }
}
