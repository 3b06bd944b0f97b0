//! What the policy includes, excludes and limits, and which directories are refused.

use std::path::Path;

use abide_workspace::{OmissionReason, Policy, SecretFiles, Workspace, WorkspaceError};

use crate::{Lab, settle};

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn paths(lab: &Lab) -> Vec<String> {
    let taken = lab.take();
    assert_eq!(taken.hash, lab.take_anew().hash);
    settle();
    let again = lab.take();
    assert_eq!(again.hash, taken.hash);
    lab.paths(&taken)
}

#[test]
fn what_is_included_is_taken_although_ignored() {
    let mut lab = Lab::new();
    lab.write(".gitignore", "target/\n.env\nbuild\n");
    lab.write("target/debug/app", "x");
    lab.write("target/release/app", "x");
    lab.write("target/release/deep/other", "x");
    lab.write(".env", "x");
    lab.write("build/out/a.log", "x");
    lab.write("src/.env", "x");
    settle();
    assert_eq!(paths(&lab), [".gitignore", "src"]);
    lab.policy.include = strings(&["/target/release/app"]);
    assert_eq!(
        paths(&lab),
        [".gitignore", "src", "target", "target/release", "target/release/app"]
    );
    lab.policy.include = strings(&["build/"]);
    lab.policy.exclude = strings(&["*.log"]);
    assert_eq!(paths(&lab), [".gitignore", "build", "build/out", "src"]);
    lab.policy.include = strings(&[".env"]);
    assert_eq!(paths(&lab), [".env", ".gitignore", "src", "src/.env"]);
    lab.policy.exclude = strings(&["/src"]);
    assert_eq!(paths(&lab), [".env", ".gitignore"]);
}

#[test]
fn files_that_usually_hold_secrets_are_left_out_if_that_is_asked_for() {
    let mut lab = Lab::new();
    for path in [
        ".env",
        ".env.local",
        "a/.env",
        "a/server.pem",
        "id_rsa",
        "id_map.rs",
        "credentials.json",
        "b",
    ] {
        lab.write(path, "x");
    }
    settle();
    let all = paths(&lab);
    assert_eq!(all.len(), 9, "{all:?}");
    lab.policy.secrets = Some(SecretFiles::Omit);
    assert_eq!(paths(&lab), ["a", "b", "id_map.rs"]);
    lab.policy.secrets = Some(SecretFiles::Keep);
    assert_eq!(paths(&lab), all);
}

#[test]
fn a_store_and_a_repository_are_never_taken() {
    let mut lab = Lab::new();
    lab.policy.include = strings(&[".git", ".abide/**", "*"]);
    lab.write(".abide/config.toml", "x");
    lab.write(".GIT/config", "x");
    lab.write("sub/.git/config", "x");
    lab.write("other/.git", "gitdir: elsewhere");
    lab.write("third/.Abide", "x");
    assert_eq!(paths(&lab), ["other", "sub", "third"]);
}

#[test]
fn limits_leave_out_and_say_so() {
    let mut lab = Lab::new();
    for number in 0..20 {
        lab.write(format!("{number:02}"), vec![0; number]);
    }
    lab.policy.max_file_bytes = 17;
    let taken = lab.take();
    let too_large = |path: &str| (path.to_owned(), OmissionReason::TooLarge);
    assert_eq!(lab.omitted(&taken), [too_large("18"), too_large("19")]);
    settle();
    lab.policy.max_file_bytes = 100;
    lab.policy.max_files = 15;
    let taken = lab.take();
    assert_eq!((taken.snapshot.files, taken.snapshot.omissions), (15, 5));
    assert!(lab.omitted(&taken).iter().all(|(_, reason)| *reason == OmissionReason::OverCap));
    lab.policy.max_files = 100;
    lab.policy.max_bytes = 50;
    let taken = lab.take();
    assert!(taken.snapshot.bytes <= 50);
    assert_eq!(taken.snapshot.files + taken.snapshot.omissions, 20);
    lab.policy = Policy { min_free_bytes: 0, ..Policy::default() };
    assert_eq!(lab.take().snapshot.files, 20);
}

#[test]
fn more_omissions_than_are_named_are_counted() {
    let mut lab = Lab::new();
    lab.policy.max_file_bytes = 0;
    for number in 0..1100 {
        lab.write(format!("{}/{number:04}", number % 7), "x");
    }
    let snapshot = lab.take().snapshot;
    assert_eq!((snapshot.omitted.len(), snapshot.omissions), (1000, 1100));
    assert!(snapshot.omitted.is_sorted_by(|one, other| one.path < other.path));
    assert_eq!(snapshot.omitted[0].path, "0/0000");
}

#[test]
fn a_nearly_full_disk_is_refused() {
    let mut lab = Lab::new();
    lab.policy.min_free_bytes = u64::MAX;
    assert!(matches!(lab.try_take(), Err(WorkspaceError::LowDisk { floor: u64::MAX, .. })));
}

#[test]
fn some_directories_are_no_workspace() {
    let open = |root: &Path| Workspace::open(root, Path::new("cache"), Policy::default());
    let refused = |root: &Path| matches!(open(root), Err(WorkspaceError::Refused { .. }));
    assert!(refused(Path::new("/")));
    if let Some(home) = std::env::home_dir().filter(|home| home.is_dir()) {
        assert!(refused(&home));
        assert!(refused(home.parent().unwrap()));
    }
    let lab = Lab::new();
    assert!(!refused(&lab.root()));
    lab.write("file", "");
    assert!(refused(&lab.path("file")));
    let missing = open(&lab.path("missing"));
    assert!(matches!(missing, Err(WorkspaceError::Io { action: "find", .. })));
}

#[test]
fn a_pattern_that_is_none_is_named() {
    let exclude = strings(&["fine", "a[b-a]"]);
    let policy = Policy { exclude, ..Policy::default() };
    let lab = Lab::new();
    let error = Workspace::open(&lab.root(), &lab.cache(), policy).unwrap_err();
    assert!(error.to_string().contains("a[b-a]"), "{error}");
}

#[test]
fn a_policy_is_read_with_defaults() {
    let policy: Policy = serde_json::from_str(r#"{"include": [".env"]}"#).unwrap();
    assert_eq!(policy, Policy { include: strings(&[".env"]), ..Policy::default() });
    assert!(serde_json::from_str::<Policy>(r#"{"inclde": []}"#).is_err());
}
