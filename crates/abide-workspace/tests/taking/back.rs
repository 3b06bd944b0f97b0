//! Going back to a snapshot: what it does not hold although it was there stays.

use std::fs;

use abide_workspace::{RestorePlan, RestoreReport, RestoreWatch, TakenSnapshot, restore};

use crate::{Lab, settle};

fn planned(lab: &Lab, present: &TakenSnapshot, target: &TakenSnapshot) -> RestorePlan {
    let workspace = lab.workspace(&lab.cache());
    workspace.plan(&lab.objects, &present.snapshot, &target.snapshot, &[]).unwrap()
}

/// Takes the present and goes back.
fn back(lab: &Lab, target: &TakenSnapshot) -> RestoreReport {
    settle();
    let plan = planned(lab, &lab.take(), target);
    restore(&lab.root(), &lab.objects, &plan, &RestoreWatch::none()).unwrap()
}

fn kept(restored: &RestoreReport) -> Vec<(&str, &str)> {
    assert_eq!(restored.failed, []);
    let text = |path| std::str::from_utf8(path).unwrap();
    restored.kept.iter().map(|(path, why)| (text(path), why.as_str())).collect()
}

fn exists(lab: &Lab, path: &str) -> bool {
    lab.path(path).symlink_metadata().is_ok()
}

const IGNORED: &str = "it was ignored at that time";

#[test]
fn what_came_to_be_ignored_outlives_a_rewind_and_its_undo() {
    let lab = Lab::new();
    lab.write(".env", "secret");
    lab.write("node_modules/a/b", "installed");
    lab.write("new", "1");
    let first = lab.take();
    settle();
    lab.write(".gitignore", ".env\nnode_modules/\n");
    let second = lab.take();
    assert_eq!(lab.paths(&second), [".gitignore", "new"]);
    let done = back(&lab, &first);
    assert_eq!((done.deleted, kept(&done)), (1, vec![]));
    lab.write("made", "since");
    let done = back(&lab, &second);
    assert_eq!(kept(&done), [(".env", IGNORED), ("node_modules", IGNORED)]);
    assert_eq!((done.created, done.deleted), (1, 1));
    assert_eq!(fs::read(lab.path(".env")).unwrap(), b"secret");
    assert_eq!(fs::read(lab.path("node_modules/a/b")).unwrap(), b"installed");
    assert!(!exists(&lab, "made"));
    assert_eq!(lab.take().hash, second.hash);
}

#[test]
fn an_ignore_file_that_was_spoilt_costs_nothing_that_it_ignored() {
    let lab = Lab::new();
    lab.write(".gitignore", "build/\n*.log\n");
    lab.write("build/deep/product", "of an hour");
    lab.write("a.log", "a");
    lab.write("code", "1");
    let first = lab.take();
    for spoilt in [Some("nothing\n"), None] {
        settle();
        match spoilt {
            Some(text) => lab.write(".gitignore", text),
            None => fs::remove_file(lab.path(".gitignore")).unwrap(),
        }
        lab.write("code", "2");
        lab.write("extra/file", "new");
        lab.write("extra/new.log", "new");
        let done = back(&lab, &first);
        let held = ("extra", "it holds files that are not stored");
        let ignored = ["a.log", "build", "extra/new.log"].map(|path| (path, IGNORED));
        assert_eq!(kept(&done), [ignored[0], ignored[1], held, ignored[2]]);
        assert_eq!(fs::read(lab.path("build/deep/product")).unwrap(), b"of an hour");
        assert_eq!(fs::read(lab.path("code")).unwrap(), b"1");
        assert!(exists(&lab, "a.log") && !exists(&lab, "extra/file"));
    }
}

#[test]
fn nested_rules_and_those_from_outside_are_the_snapshots() {
    let mut lab = Lab::new();
    lab.global = Some(lab.beside("global"));
    fs::write(lab.beside("global"), "*.swp\n").unwrap();
    lab.policy.exclude = vec!["/excluded".to_owned()];
    lab.policy.include = vec!["out/kept".to_owned()];
    lab.write(".gitignore", "*.tmp\n/out\n");
    lab.write("sub/.gitignore", "!keep.tmp\n/only\n");
    lab.write("sub/.abideignore", "own\n");
    fs::create_dir_all(lab.path(".git/info")).unwrap();
    fs::write(lab.path(".git/info/exclude"), "local\n").unwrap();
    let first = lab.take();
    assert_eq!(lab.paths(&first), [".gitignore", "sub", "sub/.abideignore", "sub/.gitignore"]);
    settle();
    for path in ["a.tmp", "sub/b.tmp", "sub/only", "sub/own", "out/other", "c.swp", "sub/local"] {
        lab.write(path, "ignored at first");
    }
    for path in ["sub/keep.tmp", "sub/deep/only", "out/kept", "own"] {
        lab.write(path, "new");
    }
    for path in [".gitignore", "sub/.gitignore", "sub/.abideignore"] {
        fs::remove_file(lab.path(path)).unwrap();
    }
    // What is excluded now is excluded then: the present must have been taken by other rules.
    lab.write("excluded", "");
    fs::write(lab.path(".git/info/exclude"), "").unwrap();
    fs::write(lab.beside("global"), "").unwrap();
    lab.policy.exclude.clear();
    let present = lab.take();
    lab.policy.exclude = vec!["/excluded".to_owned()];
    fs::write(lab.path(".git/info/exclude"), "local\n").unwrap();
    fs::write(lab.beside("global"), "*.swp\n").unwrap();
    let plan = planned(&lab, &present, &first);
    let done = restore(&lab.root(), &lab.objects, &plan, &RestoreWatch::none()).unwrap();
    let expected =
        ["a.tmp", "c.swp", "excluded", "out", "sub/b.tmp", "sub/local", "sub/only", "sub/own"];
    assert_eq!(kept(&done), expected.map(|path| (path, IGNORED)));
    assert!(exists(&lab, "out/other"));
    for gone in ["sub/keep.tmp", "sub/deep", "out/kept", "own"] {
        assert!(!exists(&lab, gone), "{gone}");
    }
}

#[test]
fn a_repository_made_since_does_not_hide_what_ignored_its_files() {
    let lab = Lab::new();
    lab.write(".gitignore", ".env\n");
    lab.write("sub/.env", "secret");
    let first = lab.take();
    settle();
    fs::create_dir(lab.path("sub/.git")).unwrap();
    assert!(lab.paths(&lab.take()).contains(&"sub/.env".to_owned()));
    assert_eq!(kept(&back(&lab, &first)), [("sub/.env", IGNORED)]);
    assert!(exists(&lab, "sub/.env"));
}

#[test]
fn what_was_left_out_stays() {
    let mut lab = Lab::new();
    lab.policy.max_file_bytes = 10;
    lab.write("large", "more than ten bytes");
    lab.write("d/large", "more than ten bytes");
    lab.write("small", "small");
    let first = lab.take();
    assert_eq!(first.snapshot.omissions, 2);
    settle();
    lab.write("large", "less");
    lab.policy.max_file_bytes = 100;
    lab.write("larger", "new");
    fs::remove_file(lab.path("d/large")).unwrap();
    lab.write("d/large/inside", "new");
    let left_out = "the snapshot left it out";
    assert_eq!(kept(&back(&lab, &first)), [("d/large", left_out), ("large", left_out)]);
    assert!(exists(&lab, "large") && exists(&lab, "d/large/inside") && !exists(&lab, "larger"));
}

#[test]
fn a_snapshot_that_does_not_name_all_it_left_out_deletes_only_what_cannot_have_been() {
    let lab = Lab::new();
    lab.write("a", "1");
    lab.write("was-file", "1");
    let mut first = lab.take();
    first.snapshot.omissions = 1;
    settle();
    lab.write("a", "2");
    lab.write("perhaps", "there");
    lab.write("d/perhaps", "there");
    fs::remove_file(lab.path("was-file")).unwrap();
    lab.write("was-file/inside", "new");
    let not_all = "the snapshot does not list everything it left out";
    assert_eq!(kept(&back(&lab, &first)), [("d", not_all), ("perhaps", not_all)]);
    assert!(exists(&lab, "d/perhaps") && exists(&lab, "perhaps"));
    assert_eq!(fs::read(lab.path("a")).unwrap(), b"1");
    assert_eq!(fs::read(lab.path("was-file")).unwrap(), b"1");
}

#[test]
fn only_paths_that_were_asked_for_are_planned() {
    let lab = Lab::new();
    lab.write(".gitignore", "x/\n");
    let first = lab.take();
    settle();
    lab.write(".gitignore", "");
    lab.write("x/y", "1");
    let present = lab.take();
    let asked = [b"x/y".to_vec(), b"none".to_vec()];
    let workspace = lab.workspace(&lab.cache());
    let plan = workspace.plan(&lab.objects, &present.snapshot, &first.snapshot, &asked).unwrap();
    let kept: Vec<_> = plan.kept.iter().map(|kept| kept.path.as_slice()).collect();
    assert_eq!((plan.steps, kept), (vec![], vec![&b"none"[..], b"x/y"]));
}

/// They are names of a repository or a store on FAT and NTFS only.
#[test]
#[cfg(target_os = "linux")]
fn what_is_taken_comes_back_whatever_other_systems_make_of_its_name() {
    let lab = Lab::new();
    let names = ["git~1", ".git.", "abide~2", ".abide ", ".git:x", "d/GIT~2/config", "d/.git. "];
    for name in names {
        lab.write(name, name);
    }
    // These are a repository's and a store's own, also where case does not count.
    for name in ["d/.GIT", "d/.Abide", "d/.g\u{200c}it"] {
        lab.write(name, "never taken");
    }
    let first = lab.take();
    assert_eq!(lab.content(&first).values().filter(|(kind, ..)| *kind == 'f').count(), 7);
    settle();
    for name in names {
        fs::remove_file(lab.path(name)).unwrap();
    }
    fs::remove_dir(lab.path("d/GIT~2")).unwrap();
    lab.write("git~7", "made since");
    assert_eq!(kept(&back(&lab, &first)), []);
    for name in names {
        assert_eq!(fs::read(lab.path(name)).unwrap(), name.as_bytes());
    }
    assert!(!exists(&lab, "git~7") && exists(&lab, "d/.GIT"));
}
