//! File systems of the benchmark's own: images in memory, mounted over loop devices.
//!
//! The images lie on a tmpfs that only this process and its children see. All of it ends with
//! them, however they end: the mounts with their namespace, the loop devices with their mounts,
//! the images with the tmpfs.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set where the mounts are this process's own.
const OWN_MOUNTS: &str = "ABIDE_BENCH_OWN_MOUNTS";
/// Any of these can be mounted over where nobody else sees it.
const PLACES: [&str; 3] = ["/mnt", "/media", "/srv"];
/// Only what is written takes memory.
const BYTES: u64 = 2 << 30;

/// The kinds of file systems, and how each is made.
pub(crate) const KINDS: [ImageKind; 3] = [
    ImageKind {
        name: "ext4",
        title: "ext4 with a journal, in memory",
        // All of it made at once: nothing is to be done in the background.
        options: &["-q", "-F", "-O", "has_journal", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    },
    ImageKind { name: "xfs", title: "xfs, in memory", options: &["-q", "-f"] },
    ImageKind { name: "btrfs", title: "btrfs, in memory", options: &["-q", "-f"] },
];

/// A kind of file system.
#[derive(Debug)]
pub(crate) struct ImageKind {
    pub(crate) name: &'static str,
    /// In tables.
    pub(crate) title: &'static str,
    options: &'static [&'static str],
}

/// Where images are mounted.
#[derive(Debug)]
pub(crate) struct Images(PathBuf);

impl Images {
    /// Gives this process mounts of its own: it starts anew. Says why that cannot be.
    pub(crate) fn prepare(dirs: &[&Path]) -> Result<Self, String> {
        if std::env::var_os(OWN_MOUNTS).is_none() {
            return Err(start_with_own_mounts());
        }
        let apart = |place: &&Path| {
            place.is_dir()
                && dirs
                    .iter()
                    .filter_map(|dir| dir.canonicalize().ok())
                    .all(|dir| !dir.starts_with(place))
        };
        let place = PLACES.map(Path::new).into_iter().find(apart);
        let place = place.ok_or_else(|| format!("one of {} is needed", PLACES.join(", ")))?;
        run("mount", ["-t", "tmpfs", "abide-bench"].map(OsStr::new), place)?;
        Ok(Self(place.to_owned()))
    }

    /// An empty file system.
    pub(crate) fn mount(&self, kind: &ImageKind) -> Result<Image, String> {
        let [file, at] =
            ["image", "mounted"].map(|what| self.0.join(format!("{}.{what}", kind.name)));
        let made = std::fs::File::create_new(&file).and_then(|file| file.set_len(BYTES));
        made.and_then(|()| std::fs::create_dir(&at)).map_err(|error| error.to_string())?;
        let image = Image { file, at };
        run(&format!("mkfs.{}", kind.name), kind.options.iter().map(OsStr::new), &image.file)?;
        let args = ["-t", kind.name, "-o", "loop"].map(OsStr::new);
        run("mount", args.into_iter().chain([image.file.as_os_str()]), &image.at)?;
        Ok(image)
    }
}

/// A mounted image.
#[derive(Debug)]
pub(crate) struct Image {
    file: PathBuf,
    at: PathBuf,
}

impl Image {
    pub(crate) fn dir(&self) -> &Path {
        &self.at
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = run("umount", ["--lazy"].map(OsStr::new), &self.at);
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_dir(&self.at);
    }
}

/// Comes back only where it cannot be done, with the reason.
fn start_with_own_mounts() -> String {
    if !rustix::process::geteuid().is_root() {
        return "images need root, for loop devices and mounts".to_owned();
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.to_string(),
    };
    let own = ["--mount", "--propagation", "private", "--"].map(OsStr::new);
    if let Err(reason) = run("unshare", own, Path::new("true")) {
        return reason;
    }
    let mut command = Command::new("unshare");
    command.args(own).arg(program).args(std::env::args_os().skip(1)).env(OWN_MOUNTS, "1");
    format!("unshare: {}", command.exec())
}

/// Runs a tool, and says what it says when it fails.
fn run<'a>(
    program: &str,
    args: impl IntoIterator<Item = &'a OsStr>,
    last: &Path,
) -> Result<(), String> {
    let output = Command::new(program).args(args).arg(last).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
