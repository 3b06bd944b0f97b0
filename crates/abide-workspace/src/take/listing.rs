//! The names in a directory, as the kernel returns them.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;
use rustix::io::Errno;

/// Buffer size, enough for many names per call.
const ROOM: usize = 64 << 10;

/// One name of a listing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListedName {
    start: usize,
    end: usize,
    /// Its type, if the file system reports it here.
    pub(crate) kind: FileType,
}

/// The names of one directory. The buffers are reused for the next.
#[derive(Default)]
pub(crate) struct Listing {
    names: Vec<u8>,
    pub(crate) entries: Vec<ListedName>,
    room: Vec<u8>,
}

impl Listing {
    /// Reads a directory from the start.
    pub(crate) fn read(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        self.names.clear();
        self.entries.clear();
        self.room.reserve(ROOM);
        self.fill(directory)
    }

    #[cfg(target_os = "linux")]
    fn fill(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut raw = rustix::fs::RawDir::new(directory, self.room.spare_capacity_mut());
        while let Some(entry) = raw.next() {
            let entry = entry?;
            push_listed_name(
                &mut self.names,
                &mut self.entries,
                entry.file_name(),
                entry.file_type(),
            );
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn fill(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        for entry in rustix::fs::Dir::read_from(directory)? {
            let entry = entry?;
            push_listed_name(
                &mut self.names,
                &mut self.entries,
                entry.file_name(),
                entry.file_type(),
            );
        }
        Ok(())
    }

    pub(crate) fn name(&self, named: ListedName) -> &CStr {
        let bytes = self.names.get(named.start..named.end).unwrap_or(b"\0");
        CStr::from_bytes_until_nul(bytes).unwrap_or(c"")
    }
}

fn push_listed_name(
    names: &mut Vec<u8>,
    entries: &mut Vec<ListedName>,
    name: &CStr,
    kind: FileType,
) {
    if matches!(name.to_bytes(), b"." | b"..") {
        return;
    }
    let start = names.len();
    names.extend_from_slice(name.to_bytes_with_nul());
    entries.push(ListedName { start, end: names.len(), kind });
}
