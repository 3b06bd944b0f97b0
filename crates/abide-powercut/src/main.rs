//! Cuts the power under abide on the real file systems of this kernel.
//!
//! A disk with a volatile cache is served over FUSE as one file; a loop device stands on it, and
//! on that ext4, xfs or btrfs. While real `abide` processes record, take checkpoints, rewind and
//! clean up, the disk writes down every write and every flush, and each answer of abide gets its
//! moment in that log. Afterwards the power goes, at many moments of the one run. What is left:
//!
//! - everything that was written before the last flush;
//! - of the writes since, an arbitrary part, in any order, torn between sectors of 512 bytes.
//!
//! The kernel mounts what is left, abide opens it, and all that was acknowledged before the cut must
//! be there. A device has no other way to promise anything than a flush: writes that must not
//! wait for one (FUA) are made by the kernel as a write and a flush. Flushes cover all writes that
//! came before them, also one that another processor sent at the same moment.
//!
//! Some cuts are made on a disk that ignores its flushes. They must be noticed: it shows that the
//! others could have been. Everything runs in mount namespaces, which end with their processes.

#[cfg(target_os = "linux")]
mod agent;
#[cfg(target_os = "linux")]
mod arguments;
#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod cut;
#[cfg(target_os = "linux")]
mod filesystem;
#[cfg(target_os = "linux")]
mod image;
#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod oracle;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod served;
#[cfg(target_os = "linux")]
mod shard;
#[cfg(target_os = "linux")]
mod story;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod work;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("power cuts: skipped: loop devices are those of Linux");
}
