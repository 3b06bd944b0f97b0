//! Checkpoints, rewinds and undos killed with SIGKILL at every system call that changes something, and
//! cleanups at every third: no checkpoint and no file is lost.
//!
//! Where strace is there, it kills at the chosen call; elsewhere the moment is a matter of time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::environment::{ABIDE, HELLO, TestEnvironment, files, run};

const CALLS: &str = "write,pwrite64,fsync,fdatasync,syncfs,rename,renameat,renameat2,unlink,unlinkat,\
                     mkdir,mkdirat,ftruncate,fchmod,fchmodat,symlinkat,openat";

/// `ABIDE_FAULTS=full` is the size that `scripts/faults` runs.
fn full() -> bool {
    std::env::var("ABIDE_FAULTS").is_ok_and(|size| size == "full")
}

/// The files of the project, the store left aside.
fn project_files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = files(dir);
    all.retain(|(path, _)| !path.starts_with(dir.join(".abide")));
    all
}

struct Lab {
    env: TestEnvironment,
    session: String,
    strace: bool,
}

impl Lab {
    fn new() -> Self {
        let env = TestEnvironment::new();
        let session = env.run(&["new", "--title", "kill"]).success().stdout().trim().to_owned();
        let strace =
            Command::new("strace").arg("-V").output().is_ok_and(|out| out.status.success());
        Self { env, session, strace }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.env.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.env.command(args);
        command.env("ABIDE_SESSION", &self.session);
        command
    }

    fn must(&self, args: &[&str]) -> String {
        run(self.command(args), b"").success().stdout().to_owned()
    }

    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        project_files(&self.env.project())
    }

    /// Runs a command and kills it at the `at`th call. Was it killed?
    fn killed(&self, args: &[&str], at: usize) -> bool {
        if self.strace {
            let mut command = self.env.isolate(Command::new("strace"));
            command
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={CALLS}")])
                .args(["-e", &format!("inject={CALLS}:signal=SIGKILL:when={at}")])
                .arg(ABIDE)
                .args(args)
                .env("ABIDE_SESSION", &self.session);
            let done = command.stdin(Stdio::null()).output().unwrap();
            return !done.status.success();
        }
        let mut child = self.command(args).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(300 * at as u64));
        let _ = child.kill();
        !child.wait().unwrap().success()
    }

    /// Puts project and store back as they were.
    fn reset(&self, from: &Path) {
        let project = self.env.project();
        fs::remove_dir_all(&project).unwrap();
        let copied = Command::new("cp").arg("-a").arg(from).arg(&project).status().unwrap();
        assert!(copied.success());
    }

    fn keep(&self, name: &str) -> PathBuf {
        let to = self.env.path(name);
        let copied =
            Command::new("cp").arg("-a").arg(self.env.project()).arg(&to).status().unwrap();
        assert!(copied.success());
        to
    }

    /// Kills `args` at each call, from `stage` each time, and checks what is left.
    fn each(&self, stage: &Path, args: &[&str], check: &dyn Fn(&Self)) -> usize {
        let mut kills = 0;
        // A cleanup makes many calls that are alike.
        let every = if args.contains(&"cleanup") { 3 } else { 1 };
        let step = if full() { every } else { 17 };
        for at in (1..).step_by(step) {
            self.reset(stage);
            let killed = self.killed(args, at);
            check(self);
            if !killed {
                break;
            }
            kills += 1;
        }
        kills
    }
}

#[test]
fn no_file_is_lost_when_a_rewind_is_killed_anywhere() {
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
    println!("killed {kills} rewinds and {undos} undos (strace: {})", lab.strace);
    assert!(kills >= 3 && undos >= 3, "{kills}, {undos}");
}

#[test]
fn no_checkpoint_is_lost_when_a_checkpoint_or_a_cleanup_is_killed_anywhere() {
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
    println!("killed {checkpoints} checkpoints and {cleanups} cleanups (strace: {})", lab.strace);
    assert!(checkpoints >= 2 && cleanups >= 2, "{checkpoints}, {cleanups}");
}
