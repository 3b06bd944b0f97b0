//! Checkpoints, rewinds and undos killed with SIGKILL at every system call that changes something, and
//! cleanups at every third: no checkpoint and no file is lost.
//!
//! strace kills at the chosen call; without it this is skipped.

use std::fs;
use std::path::{Path, PathBuf};

use abide_testkit::FaultRun;

use crate::environment::{HELLO, run};
use crate::fault::{Fault, skipped};
use crate::lab::Lab;

impl Lab {
    /// Kills `args` at each call, from `stage` each time, and checks what is left.
    fn each(&self, stage: &Path, args: &[&str], check: &dyn Fn(&Self)) -> usize {
        // A cleanup makes many calls that are alike.
        let every = if args.contains(&"cleanup") { 3 } else { 1 };
        self.reset(stage);
        let mut kills = 0;
        let calls = self.calls(args, b"");
        for at in FaultRun::from_env().places(calls.len() as u64, 17, every) {
            let call = calls[usize::try_from(at).unwrap()].clone();
            self.reset(stage);
            let fault = Fault::Kill(call);
            let killed = self.strike(args, b"", &fault).struck;
            check(self);
            kills += usize::from(killed);
        }
        kills
    }
}

#[test]
fn no_file_is_lost_when_a_rewind_is_killed_anywhere() {
    if skipped() {
        return;
    }
    let lab = Lab::new();
    for n in 0..4 {
        lab.write(&format!("src/f{n}.txt"), &format!("first {n}\n"));
    }
    lab.write("gone.txt", "only at first\n");
    lab.must(&["checkpoint", "create", "-m", "one"]);
    let first = lab.files();
    for n in 0..4 {
        lab.write(&format!("src/f{n}.txt"), &format!("second {n}\n"));
    }
    lab.write("new/deep.txt", "only at last\n");
    fs::remove_file(lab.env.project().join("gone.txt")).unwrap();
    let line = format!("{HELLO}\n");
    run(lab.command(&["record"]), line.as_bytes()).success();
    let second = lab.files();
    let stage = lab.keep("before");

    // The next command finishes what was begun; then all is as before, or all is back.
    let settled = |lab: &Lab, to: &[(PathBuf, Vec<u8>)], from: &[(PathBuf, Vec<u8>)]| {
        lab.must(&["checkpoint", "create"]);
        let now = lab.files();
        assert!(now == to || now == from, "neither: {now:?}");
        lab.must(&["doctor"]);
        now == to
    };
    let rewind = ["rewind", "--to", "one", "--yes"];
    let kills = lab.each(&stage, &rewind, &|lab| {
        if settled(lab, &first, &second) {
            lab.must(&["undo", "--yes"]);
            assert_eq!(lab.files(), second);
        }
        lab.must(&["rewind", "--to", "one", "--files", "--yes"]);
        assert_eq!(lab.files(), first);
    });
    lab.reset(&stage);
    lab.must(&rewind);
    let stage = lab.keep("rewound");
    let undos = lab.each(&stage, &["undo", "--yes"], &|lab| {
        if !settled(lab, &second, &first) {
            lab.must(&["undo", "--yes"]);
        }
        assert_eq!(lab.files(), second);
    });
    println!("kills of rewinds: {kills}\nkills of undos: {undos}");
    assert!(kills >= 3 && undos >= 3, "{kills}, {undos}");
}

#[test]
fn no_checkpoint_is_lost_when_a_checkpoint_or_a_cleanup_is_killed_anywhere() {
    if skipped() {
        return;
    }
    let lab = Lab::new();
    lab.write("a", "1\n");
    lab.must(&["checkpoint", "create"]);
    let first = lab.files();
    lab.write("a", "2\n");
    lab.write("b/c", "new\n");
    let stage = lab.keep("before");
    let back = |lab: &Lab| {
        lab.must(&["doctor"]);
        lab.must(&["rewind", "--to", "1", "--files", "--yes"]);
        assert_eq!(lab.files(), first);
    };
    let checkpoints = lab.each(&stage, &["checkpoint", "create"], &back);

    // Sessions and objects that nothing needs, for a cleanup to take.
    lab.reset(&stage);
    for n in 0..4 {
        let text = format!("{n} ").repeat(60_000);
        let line = format!("{{\"kind\":\"x.large\",\"data\":{{\"text\":\"{text}\"}}}}\n");
        run(lab.env.command(&["record", "--key", &format!("k{n}")]), line.as_bytes()).success();
    }
    lab.write("a", "3\n");
    lab.must(&["checkpoint", "create"]);
    let stage = lab.keep("full");
    let cleanups = lab.each(&stage, &["cleanup", "--keep", "1", "--yes"], &back);
    println!("kills of checkpoints: {checkpoints}\nkills of cleanups: {cleanups}");
    assert!(checkpoints >= 2 && cleanups >= 2, "{checkpoints}, {cleanups}");
}
