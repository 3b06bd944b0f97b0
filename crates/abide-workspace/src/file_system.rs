//! Which guarantees the workspace's file system gives.

use std::path::Path;

/// Returns true on the common local Linux file systems. There, a directory's times change whenever
/// a name in it is added, removed or replaced, and names have no second spelling except by case.
#[cfg(target_os = "linux")]
pub(crate) fn is_native(root: &Path) -> bool {
    const NATIVE: [u64; 8] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683e, // Btrfs
        0x0102_1994, // tmpfs
        0xf2f5_2010, // F2FS
        0x2fc1_2fc1, // ZFS
        0x794c_7630, // overlayfs
        0xca45_1a4e, // bcachefs
    ];
    rustix::fs::statfs(root).is_ok_and(|system| NATIVE.contains(&(system.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_native(_root: &Path) -> bool {
    false
}
