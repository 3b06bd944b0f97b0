//! Bounds on what an input may take: ten seconds, and a gibibyte for the whole process.
//!
//! Whatever ends the process (the stack, memory, time), the input stays in a file, and the next run
//! begins with it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const TIME: Duration = Duration::from_secs(10);
const MEMORY: u64 = 1 << 30;

/// The bounds for one target. They end with it.
pub struct Watch {
    path: PathBuf,
    file: File,
    started: Sender<()>,
}

impl Watch {
    /// Begins to watch. Gives the input that ended the process of an earlier run, if one did.
    pub fn begin(name: &str) -> (Self, Option<Vec<u8>>) {
        let most = Rlimit { current: Some(MEMORY), ..getrlimit(Resource::Data) };
        setrlimit(Resource::Data, most).expect("a limit for memory");
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.running"));
        let left = fs::read(&path).ok();
        let file = File::create(&path).expect("a file for the running input");
        let (started, starts) = channel();
        let shown = path.display().to_string();
        std::thread::spawn(move || {
            loop {
                match starts.recv_timeout(TIME) {
                    Ok(()) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        say(&format!("{shown}: not done after {TIME:?}"));
                        std::process::abort();
                    }
                }
            }
        });
        (Self { path, file, started }, left)
    }

    /// An input begins now.
    pub fn start(&self, input: &[u8]) {
        let written = self.file.set_len(0).and_then(|()| self.file.write_all_at(input, 0));
        written.expect("the running input is kept");
        self.started.send(()).expect("somebody watches");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Prints past the test runner, which would not show it when the process ends.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
