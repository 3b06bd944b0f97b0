//! The file systems of this kernel: made, mounted over a loop device, and taken away again.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::command::{limited, run, tool};

/// A file system that abide is tried on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileSystem {
    Ext4,
    /// ext4 without its journal. Tried only where it is asked for: a power cut among unordered writes of
    /// metadata takes whole directories with it, those of others too, whatever was synced.
    #[value(name = "ext4-bare")]
    #[serde(rename = "ext4-bare")]
    Ext4Bare,
    Xfs,
    Btrfs,
}

impl FileSystem {
    /// Those that keep their own promises.
    pub(crate) const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Ext4Bare => "ext4-bare",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// What the kernel and `mkfs` call it.
    const fn kernel_name(self) -> &'static str {
        match self {
            Self::Ext4Bare => Self::Ext4.name(),
            other => other.name(),
        }
    }

    /// Near the smallest that `mkfs` makes, so that journals go round.
    const fn bytes(self) -> u64 {
        match self {
            Self::Ext4 | Self::Ext4Bare => 96 << 20,
            Self::Xfs => 320 << 20,
            Self::Btrfs => 256 << 20,
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            // All of it made at once: nothing is to be done in the background.
            Self::Ext4 => &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            Self::Ext4Bare => &["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0"],
            Self::Xfs => &["-q", "-f"],
            Self::Btrfs => &["-q", "-f"],
        }
    }

    /// Why it cannot be tried here, where it cannot.
    pub(crate) fn missing(self) -> Option<String> {
        let name = self.kernel_name();
        let known = || {
            let all = fs::read_to_string("/proc/filesystems").unwrap_or_default();
            all.lines().any(|line| line.split_whitespace().next_back() == Some(name))
        };
        if !known() {
            let _ = tool("modprobe", &[name.as_ref()]);
        }
        if !known() {
            return Some(format!("this kernel has no {name}"));
        }
        let make = format!("mkfs.{name}");
        let version = if self == Self::Btrfs { "--version" } else { "-V" };
        tool(&make, &[version.as_ref()]).err().map(|why| format!("no {make}: {why}"))
    }

    /// A file with an empty file system.
    pub(crate) fn make(self, path: &Path) -> Result<(), String> {
        let file = fs::File::create(path).and_then(|file| file.set_len(self.bytes()));
        file.map_err(|error| format!("{}: {error}", path.display()))?;
        let mut args: Vec<&OsStr> = self.options().iter().map(OsStr::new).collect();
        args.push(path.as_os_str());
        tool(&format!("mkfs.{}", self.kernel_name()), &args).map(drop)
    }

    /// What a machine does to it before it mounts it after a power cut.
    pub(crate) fn check(self, path: &Path) -> Result<(), String> {
        if self != Self::Ext4Bare {
            // Its journal does that at the mount.
            return Ok(());
        }
        let mut command = limited("e2fsck");
        command.args(["-f", "-y"]).arg(path);
        let done = run(command, b"")?;
        // 1: errors were corrected. 2: the same, and a machine that had mounted it should boot again.
        match done.code {
            Some(0..=2) => Ok(()),
            code => Err(format!("e2fsck ended with {code:?}: {}", done.errors.trim())),
        }
    }
}

/// A mounted file system. The loop device goes with it.
#[derive(Debug)]
pub(crate) struct Mounted {
    at: PathBuf,
    /// The loop device: `/dev/loop3`.
    pub(crate) device: String,
    mounted: bool,
}

impl Mounted {
    /// Mounts the file. Where it can be had, on the same device as before: to abide, a device
    /// of another number is another disk, of which it remembers nothing.
    pub(crate) fn mount(
        kind: FileSystem,
        file: &Path,
        at: &Path,
        before: Option<&str>,
    ) -> Result<Self, String> {
        let again = before.and_then(|device| {
            let attach = || tool("losetup", &[device.as_ref(), file.as_os_str()]).is_ok();
            // The kernel lets a device go a moment after its file system.
            let free = (0..20).any(|_| {
                attach() || {
                    std::thread::sleep(Duration::from_millis(5));
                    false
                }
            });
            free.then(|| device.to_owned())
        });
        let device = match again {
            Some(device) => device,
            None => tool("losetup", &["--find".as_ref(), "--show".as_ref(), file.as_os_str()])?,
        };
        let args = ["-t".as_ref(), kind.kernel_name().as_ref(), device.as_ref(), at.as_os_str()];
        let mounted = tool("mount", &args);
        // It stays as long as it is mounted, and no longer.
        let detached = tool("losetup", &["-d".as_ref(), device.as_ref()]);
        mounted?;
        let mounted = Self { at: at.to_owned(), device, mounted: true };
        detached.map(|_| mounted)
    }

    pub(crate) fn unmount(mut self) -> Result<(), String> {
        self.mounted = false;
        let mut told = String::new();
        // A process that has just ended may hold it for a moment.
        for _ in 0..50 {
            match tool("umount", &[self.at.as_os_str()]) {
                Ok(_) => return Ok(()),
                Err(error) => told = error,
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.mounted = true;
        Err(told)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted {
            let _ = tool("umount", &["--lazy".as_ref(), self.at.as_os_str()]);
        }
    }
}
