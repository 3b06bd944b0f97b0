//! The block device below a directory, and what it has written: the kernel's counters of it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::machine::mount_of;

/// The environment variable that tells a process where the counters are.
pub(crate) const VARIABLE: &str = "DEVICE_COUNTERS";
const SECTOR: u64 = 512;

/// A block device, by the file of its counters.
#[derive(Debug, Clone)]
pub(crate) struct Device(PathBuf);

/// What a device wrote: all of it, whoever asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceWrites {
    pub(crate) bytes: u64,
    /// Requests that reached the device.
    pub(crate) writes: u64,
}

impl Device {
    /// The device that a directory is on, where it is on one that can be seen.
    pub(crate) fn below(dir: &Path) -> Option<Self> {
        let mount = mount_of(dir).ok()?;
        let number = std::fs::metadata(mount.source).ok()?.rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = Self(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")));
        device.written().map(|_| device)
    }

    /// The one that the environment names.
    pub(crate) fn named() -> Option<Self> {
        std::env::var_os(VARIABLE).map(|path| Self(path.into()))
    }

    pub(crate) fn counters(&self) -> &Path {
        &self.0
    }

    /// What it has written so far.
    pub(crate) fn written(&self) -> Option<DeviceWrites> {
        DeviceWrites::parse(&std::fs::read_to_string(&self.0).ok()?)
    }
}

impl DeviceWrites {
    fn parse(counters: &str) -> Option<Self> {
        let mut fields = counters.split_whitespace().skip(4);
        let writes = fields.next()?.parse().ok()?;
        let sectors: u64 = fields.nth(1)?.parse().ok()?;
        Some(Self { bytes: sectors * SECTOR, writes })
    }

    /// What was written since an earlier count.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self { bytes: self.bytes - before.bytes, writes: self.writes - before.writes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_the_kernel_writes_them() {
        let counters = "  696690  65868  5444760   126751   398808   233184 16670206   111429  0";
        let written = DeviceWrites::parse(counters).unwrap();
        assert_eq!(written, DeviceWrites { bytes: 16_670_206 * 512, writes: 398_808 });
        assert_eq!(DeviceWrites::parse("1 2 3"), None);
    }
}
