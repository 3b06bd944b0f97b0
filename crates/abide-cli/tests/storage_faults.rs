//! Disks that are full, places that cannot be written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::{Conversation, HELLO, TestEnvironment, files, run};

/// A small file system of its own; gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not mount one.
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "abide-test"])
            .arg(at)
            .output();
        if mounted.is_ok_and(|done| done.status.success()) {
            return Some(Self(at.to_owned()));
        }
        eprintln!("skipped: no small file system can be mounted here");
        None
    }

    fn make_read_only(&self) {
        let done = Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).output();
        assert!(done.unwrap().status.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_that_is_emptied_lets_recording_go_on() {
    let env = TestEnvironment::new();
    let Some(disk) = SmallDisk::mount(&env.path("disk")) else {
        return;
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let store = disk.0.join("store");
    let store = store.to_str().unwrap();
    env.run(&["init", "--store", store]).success();
    let mut talk = Conversation::start(env.command(&["record", "--store", store]));
    let mut acknowledged = Vec::new();
    let line =
        |n: usize| format!(r#"{{"kind":"x.n","data":{{"n":{n},"pad":"{}"}}}}"#, "p".repeat(20_000));
    let mut n = 0;
    let refusal = loop {
        let answer = talk.ask(&line(n));
        match answer["seq"].as_u64() {
            Some(seq) => acknowledged.push((seq, n)),
            None => break answer,
        }
        n += 1;
        assert!(n < 200, "the disk never got full");
    };
    assert_eq!(refusal["error"]["code"], "stopped");
    let said = refusal["error"]["message"].as_str().unwrap();
    let safe = format!("events up to {} are acknowledged", acknowledged.last().unwrap().0);
    assert!(said.contains(&safe) && said.contains("No space left"), "{said}");
    assert_eq!(talk.ask(&line(n))["error"]["code"], "stopped");
    fs::remove_file(&ballast).unwrap();
    for more in n..n + 5 {
        let answer = talk.ask(&line(more));
        acknowledged.push((answer["seq"].as_u64().unwrap_or_else(|| panic!("{answer}")), more));
    }
    assert_eq!(talk.end(), 1);
    let exported = env.run(&["export", "--store", store]).success().json_lines();
    for (seq, n) in acknowledged {
        let event = exported.iter().find(|event| event["seq"] == seq).unwrap();
        assert_eq!(event["data"]["n"], n);
    }
    let report = env.run(&["doctor", "--store", store]).success();
    assert!(report.stdout().ends_with("no findings\n"), "{report:?}");
}

#[test]
fn a_disk_that_is_full_from_the_start_is_an_error_with_a_hint() {
    let env = TestEnvironment::new();
    let Some(disk) = SmallDisk::mount(&env.path("disk")) else {
        return;
    };
    let store = disk.0.join("store");
    let store = store.to_str().unwrap();
    env.run(&["init", "--store", store]).success();
    // The rest of the disk, to the last byte.
    let mut ballast = fs::File::create(disk.0.join("ballast")).unwrap();
    let _ = std::io::copy(&mut std::io::repeat(0), &mut ballast);
    let done = env.record(&["--store", store], &[HELLO]).failure(1);
    assert!(
        done.stderr.contains("No space left") && done.stderr.contains("Hint: free some space"),
        "{done:?}"
    );
    assert_eq!(done.stdout(), "");
}

#[test]
fn a_read_only_store_is_read_and_checked() {
    let env = TestEnvironment::new();
    let Some(disk) = SmallDisk::mount(&env.path("disk")) else {
        return;
    };
    let store = disk.0.join("store");
    let store = store.to_str().unwrap();
    env.run(&["init", "--store", store]).success();
    env.record(&["--store", store, "--key", "s"], &[HELLO]).success();
    disk.make_read_only();
    let before = files(&disk.0);
    for args in [&["doctor"][..], &["export"], &["show"], &["history"], &["tail"]] {
        env.run(&[args, &["--store", store]].concat()).success();
    }
    for args in [&["record", "--key", "s"][..], &["record"], &["new"]] {
        let command = env.command(&[args, &["--store", store]].concat());
        let done = run(command, HELLO.as_bytes()).failure(1);
        assert!(done.stderr.contains("Read-only file system"), "{done:?}");
        assert!(done.stderr.contains("Hint: this place cannot be written"), "{done:?}");
        assert_eq!(done.stdout(), "");
    }
    let elsewhere = disk.0.join("new");
    let done = env.run(&["init", "--store", elsewhere.to_str().unwrap()]).failure(1);
    assert!(done.stderr.contains("cannot create"), "{done:?}");
    assert_eq!(files(&disk.0), before);
}

#[test]
fn history_is_answered_on_a_read_only_and_on_a_full_disk() {
    let env = TestEnvironment::new();
    let Some(disk) = SmallDisk::mount(&env.path("disk")) else {
        return;
    };
    let root = disk.0.join("store");
    let store = root.to_str().unwrap();
    env.run(&["init", "--store", store]).success();
    env.record(&["--store", store, "--key", "s"], &[HELLO]).success();
    let found = |env: &TestEnvironment| {
        let done = env.run(&["history", "--search", "hello", "--store", store]).success();
        assert_eq!(done.stdout().lines().count(), 3, "the session, its key, the match: {done:?}");
        done.stderr
    };
    assert_eq!(found(&env), "");
    // News that the index does not have, and no room for it.
    let said = r#"{"kind":"message.added","data":{"role":"user","content":"more"}}"#;
    env.record(&["--store", store, "--key", "s"], &[said]).success();
    let mut ballast = fs::File::create(disk.0.join("ballast")).unwrap();
    let _ = std::io::copy(&mut std::io::repeat(0), &mut ballast);
    for _ in 0..2 {
        let more = env.run(&["history", "--search", "more", "--store", store]).success();
        assert_eq!(more.stdout().lines().count(), 3, "{more:?}");
        assert!(more.stderr.contains("a temporary one was used"), "{more:?}");
    }
    fs::remove_file(root.join("index.db")).unwrap();
    let _ = std::io::copy(&mut std::io::repeat(0), &mut ballast);
    assert!(found(&env).contains("a temporary one was used"));
    fs::remove_file(disk.0.join("ballast")).unwrap();
    drop(ballast);
    assert_eq!(found(&env), "");
    disk.make_read_only();
    let before = files(&disk.0);
    assert!(found(&env).contains("a temporary one was used"));
    assert_eq!(files(&disk.0), before);
}

#[test]
fn a_file_where_a_directory_should_be_is_an_error_with_its_place() {
    let env = TestEnvironment::new();
    fs::write(env.project().join("file"), "").unwrap();
    let done = env.run(&["init", "--store", "file/below/store"]).failure(1);
    assert!(
        done.stderr.starts_with("Error: cannot create ")
            && done.stderr.contains("project/file/below"),
        "{done:?}"
    );
    assert!(done.stderr.contains("Hint: there is a file where"), "{done:?}");
}
