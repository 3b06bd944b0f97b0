//! Ignore files, compared with git itself, and repositories of every shape.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Lab, settle};

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"])
        .args(["-c", "core.excludesFile=/dev/null"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The files that git would take.
fn of_git(directory: &Path) -> BTreeSet<String> {
    let listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = git(directory, &listed);
    listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect()
}

/// The files that a snapshot takes.
fn of_snapshot(lab: &Lab) -> BTreeSet<String> {
    let taken = lab.take();
    assert_eq!(taken.hash, lab.take_anew().hash);
    let content = lab.content(&taken);
    let files = content.into_iter().filter(|(_, (kind, ..))| *kind != 'd');
    files.map(|(path, _)| String::from_utf8(path).unwrap()).collect()
}

const RULES: &[(&str, &str)] = &[
    (
        ".gitignore",
        "# a comment\n*.log\n!keep.log\n/only-top\nbuild/\ndoc/*.txt\nfoo/**\n**/deep\na/**/z\n\
         \\#hash\n\\!bang\ntrailing   \nspaced\\ \n*.{x,y}\n[ab]c\n[!q]r\n/anchored/dir/\n\
         !/build/kept\ntest?\nend/**\n!end/this\nname with space\n\\*star\n",
    ),
    ("sub/.gitignore", "!*.log\nkeep.log\n/here\n\r\ncrlf\r\n*.tmp\n"),
    ("sub/sub/.gitignore", "*\n!.gitignore\n!*.md\n"),
    ("empty/.gitignore", ""),
    ("bom/.gitignore", "\u{feff}first\nsecond\n"),
];

const FILES: &[&str] = &[
    "a.log",
    "keep.log",
    "only-top",
    "x/only-top",
    "build/one",
    "build/kept",
    "x/build/two",
    "doc/a.txt",
    "doc/b/a.txt",
    "x/doc/a.txt",
    "foo/a",
    "foo/b/c",
    "deep",
    "x/deep/y",
    "x/y/deep",
    "a/z",
    "a/b/z",
    "a/b/c/z",
    "#hash",
    "!bang",
    "trailing",
    "spaced ",
    "q.x",
    "q.{x,y}",
    "ac",
    "bc",
    "cc",
    "qr",
    "ar",
    "anchored/dir/f",
    "x/anchored/dir/f",
    "test1",
    "test",
    "test12",
    "end/this",
    "end/that",
    "end/deeper/this",
    "name with space",
    "*star",
    "xstar",
    "sub/a.log",
    "sub/keep.log",
    "sub/here",
    "sub/x/here",
    "sub/crlf",
    "sub/t.tmp",
    "sub/sub/a",
    "sub/sub/b.md",
    "sub/sub/c/d.md",
    "bom/first",
    "bom/second",
    "bom/third",
    "empty/x.log",
    "empty/y",
];

#[test]
fn files_are_ignored_as_git_ignores_them() {
    let lab = Lab::new();
    for path in FILES {
        // What is a directory for one path cannot be a file for another.
        if !lab.path(path).exists() {
            lab.write(path, *path);
        }
    }
    for (path, rules) in RULES {
        lab.write(path, rules);
    }
    settle();
    let alone = of_snapshot(&lab);
    git(&lab.root(), &["init", "-q"]);
    fs::write(lab.path(".git/info/exclude"), "qr\nempty/y\n").unwrap();
    let with_git = of_snapshot(&lab);
    assert_eq!(with_git, of_git(&lab.root()));
    let excluded: Vec<_> = alone.difference(&with_git).map(String::as_str).collect();
    assert_eq!(excluded, ["empty/y", "qr"]);
    settle();
    fs::write(lab.path(".git/info/exclude"), "").unwrap();
    assert_eq!(of_snapshot(&lab), of_git(&lab.root()));
    // A workspace that is only a part of the repository.
    let part = Lab { ..Lab::new() };
    git(&part.beside(""), &["init", "-q"]);
    fs::write(part.beside(".gitignore"), "/root/x\n/y\n*.log\n").unwrap();
    for path in ["x", "y", "a.log", "z/x", "z/b.log"] {
        part.write(path, "");
    }
    let expected: BTreeSet<String> = of_git(&part.root());
    assert_eq!(of_snapshot(&part), expected);
    assert_eq!(expected.into_iter().collect::<Vec<_>>(), ["y", "z/x"]);
}

#[test]
fn the_stronger_ignore_file_wins() {
    let mut lab = Lab::new();
    lab.write(".gitignore", "a\nb\nc\n");
    lab.write(".ignore", "!b\n!c\nd\n");
    lab.write(".abideignore", "c\n!d\n");
    for path in ["a", "b", "c", "d", "e", "global"] {
        lab.write(path, "");
    }
    fs::write(lab.beside("excludes"), "global\ne\n").unwrap();
    lab.global = Some(lab.beside("excludes"));
    let taken: Vec<_> = of_snapshot(&lab).into_iter().collect();
    assert_eq!(taken, [".abideignore", ".gitignore", ".ignore", "b", "d"]);
    // One that is itself ignored still holds, and one that is a link does not.
    settle();
    lab.write(".abideignore", ".abideignore\nb\n");
    assert!(!of_snapshot(&lab).contains("b"));
    settle();
    assert!(!of_snapshot(&lab).contains("b"));
    fs::rename(lab.path(".abideignore"), lab.beside("rules")).unwrap();
    std::os::unix::fs::symlink(lab.beside("rules"), lab.path(".abideignore")).unwrap();
    assert!(of_snapshot(&lab).contains("b"));
}

#[test]
fn repositories_within_are_taken_without_their_git() {
    let lab = Lab::new();
    let root = lab.root();
    git(&root, &["init", "-q"]);
    lab.write(".gitignore", "*.log\n");
    lab.write("file", "x");
    git(&root, &["add", "."]);
    git(&root, &["commit", "-q", "-m", "m"]);
    // One without a commit, one linked work tree, one submodule.
    fs::create_dir(lab.path("unborn")).unwrap();
    git(&lab.path("unborn"), &["init", "-q"]);
    lab.write("unborn/new", "x");
    lab.write("unborn/a.log", "the rules outside do not hold in here");
    git(&root, &["worktree", "add", "-q", "tree", "-b", "other"]);
    let library = lab.beside("library");
    fs::create_dir(&library).unwrap();
    git(&library, &["init", "-q"]);
    fs::write(library.join("code"), "x").unwrap();
    git(&library, &["add", "."]);
    git(&library, &["commit", "-q", "-m", "m"]);
    git(&root, &["submodule", "add", "-q", library.to_str().unwrap(), "module"]);
    fs::write(lab.path(".git/modules/module/info/exclude"), "secret\n").unwrap();
    fs::write(lab.path(".git/info/exclude"), "hidden\n").unwrap();
    for path in ["module/secret", "module/hidden", "tree/hidden", "tree/secret", "hidden"] {
        lab.write(path, "");
    }
    let state = |lab: &Lab| {
        let content = crate::on_disk(&lab.path(".git"));
        (content, git(&root, &["--no-optional-locks", "status", "--porcelain=v2"]))
    };
    let before = state(&lab);
    let taken: Vec<_> = of_snapshot(&lab).into_iter().collect();
    assert_eq!(
        taken,
        [
            ".gitignore",
            ".gitmodules",
            "file",
            "module/code",
            "module/hidden",
            "tree/.gitignore",
            "tree/file",
            "tree/secret",
            "unborn/a.log",
            "unborn/new",
        ]
    );
    assert_eq!(state(&lab), before, "nothing of git's is touched");
    settle();
    lab.take();
    settle();
    assert!(lab.take().unchanged);
    fs::write(lab.path(".git/modules/module/info/exclude"), "").unwrap();
    assert!(of_snapshot(&lab).contains("module/secret"));
}
