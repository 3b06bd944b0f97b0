//! What the system refuses: an error where nothing is known, an omission where a file is closed.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use abide_workspace::{OmissionReason, WorkspaceError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Lab, settle};

/// Does `work` without the rights that let root pass over modes.
fn as_owner<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let mut rights = capabilities(None).unwrap();
            let over = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            rights.effective.remove(over);
            set_capabilities(None, rights).unwrap();
            work()
        });
        work.join().unwrap()
    })
}

fn set_mode(lab: &Lab, path: &str, mode: u32) {
    fs::set_permissions(lab.path(path), fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_a_closed_ignore_file_ignores_is_not_taken() {
    let lab = Lab::new();
    lab.write("a", "a");
    lab.write("d/.gitignore", "secret\n");
    lab.write("d/secret", "secret");
    lab.write("r/.git/info/exclude", "secret\n");
    lab.write("r/secret", "secret");
    lab.take();
    settle();
    set_mode(&lab, "d/.gitignore", 0);
    set_mode(&lab, "r/.git/info/exclude", 0);
    let taken = as_owner(|| lab.take());
    assert_eq!(lab.paths(&taken), ["a"]);
    let left_out = ["d", "r"].map(|path| (path.to_owned(), OmissionReason::Unreadable));
    assert_eq!(lab.omitted(&taken), left_out);
    set_mode(&lab, "d/.gitignore", 0o644);
    set_mode(&lab, "r/.git/info/exclude", 0o644);
    let taken = as_owner(|| lab.take());
    assert_eq!(lab.paths(&taken), ["a", "d", "d/.gitignore", "r"]);
    lab.write(".gitignore", "secret\n");
    set_mode(&lab, ".gitignore", 0);
    let refused = as_owner(|| lab.try_take());
    assert!(matches!(&refused, Err(WorkspaceError::Io { .. })), "{refused:?}");
}

#[test]
fn closed_excludes_from_outside_are_an_error() {
    let mut lab = Lab::new();
    lab.global = Some(lab.beside("global"));
    lab.take();
    fs::write(lab.beside("global"), "secret\n").unwrap();
    fs::set_permissions(lab.beside("global"), fs::Permissions::from_mode(0o000)).unwrap();
    let refused = as_owner(|| lab.try_take());
    assert!(matches!(&refused, Err(WorkspaceError::Io { .. })), "{refused:?}");
}

#[test]
fn an_ignore_file_that_is_none_says_nothing() {
    let lab = Lab::new();
    lab.write("rules", "secret\n");
    lab.write("secret", "secret");
    symlink("rules", lab.path(".gitignore")).unwrap();
    fs::create_dir(lab.path(".ignore")).unwrap();
    std::os::unix::net::UnixListener::bind(lab.path(".abideignore")).unwrap();
    lab.write(".git", format!("gitdir: {}\0", "x".repeat(5000)));
    let taken = lab.take();
    assert_eq!(lab.paths(&taken), [".gitignore", ".ignore", "rules", "secret"]);
    assert_eq!(lab.omitted(&taken), [(".abideignore".to_owned(), OmissionReason::Special)]);
}

/// The limit holds for a whole process: this test runs itself once more for each.
#[test]
fn too_many_open_files_are_an_error_and_never_an_omission() {
    const LIMIT: &str = "ABIDE_TEST_OPEN_FILES";
    if let Ok(limit) = std::env::var(LIMIT) {
        return take_with_few_files(limit.parse().unwrap());
    }
    let name = "refused::too_many_open_files_are_an_error_and_never_an_omission";
    for limit in 4..=16 {
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--test-threads=1", "--nocapture"])
            .env(LIMIT, limit.to_string())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{limit}: {told}");
    }
}

/// `free` is the number of the first file that cannot be opened.
fn take_with_few_files(free: u64) {
    let lab = Lab::new();
    lab.write(".gitignore", "*.log\n");
    for n in 0..20 {
        lab.write(format!("d{n}/.gitignore"), "secret\n");
        lab.write(format!("d{n}/secret"), "secret");
        lab.write(format!("d{n}/e/f/g/file"), "file");
        lab.write(format!("d{n}/a.log"), "log");
    }
    let whole = lab.take_anew();
    let limits = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(free), maximum: limits.maximum }).unwrap();
    let taken = lab.try_take();
    setrlimit(Resource::Nofile, limits).unwrap();
    match taken {
        Ok(taken) => assert_eq!(taken.snapshot, whole.snapshot),
        Err(WorkspaceError::Io { source, .. }) => {
            assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_file_that_cannot_be_read_now_is_kept_and_named() {
    let lab = Lab::new();
    lab.write("a", "a");
    lab.write("always", "closed");
    set_mode(&lab, "always", 0);
    let before = as_owner(|| lab.take());
    lab.write("later", "closed");
    set_mode(&lab, "later", 0);
    let now = as_owner(|| lab.take());
    let kept = |paths: &[Vec<u8>]| {
        let workspace = lab.workspace(&lab.cache());
        let plan = workspace.plan(&lab.objects, &now.snapshot, &before.snapshot, paths).unwrap();
        assert_eq!(plan.steps, []);
        plan.kept.into_iter().map(|kept| (kept.path, kept.why)).collect::<Vec<_>>()
    };
    // One that could not be read then either is none of the restore's.
    assert_eq!(kept(&[]), [(b"later".to_vec(), "it could not be read")]);
    assert_eq!(kept(&[b"a".to_vec()]), []);
}
