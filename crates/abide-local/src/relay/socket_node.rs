//! The socket file: its path, its permissions, its owner.
//!
//! It is reached through its opened directory, because a socket address is limited to about a
//! hundred bytes and a path is not. Symlinks are not followed.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use abide_model::StoreError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

use crate::error::storage_error;
use crate::store_layout::{layout_path_text, refused_link};

/// A socket that this process listens at. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct SocketNode {
    dir: OwnedFd,
    name: String,
    /// Device and inode.
    inode: (u64, u64),
}

/// Opens the directory of a socket. Returns it with the socket's name in it.
fn open_node_dir(path: &Path) -> io::Result<(OwnedFd, String)> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    Ok((dir, name.to_string_lossy().into_owned()))
}

/// A path to a file in an opened directory; short on systems that support it.
fn path_through_node(dir: &OwnedFd, path: &Path, name: &str) -> PathBuf {
    let opened = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    if cfg!(target_os = "linux") && opened.exists() {
        return opened.join(name);
    }
    path.with_file_name(name)
}

/// The widths of these fields differ between systems.
#[allow(clippy::useless_conversion, clippy::cast_lossless, clippy::unnecessary_cast)]
const fn inode_of(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Refuses anything but a socket: a symlink or another file is neither used nor replaced.
fn refuse_other_node(stat: &Stat, path: &Path) -> Result<(), StoreError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => Ok(()),
        FileType::Symlink => Err(refused_link(path)),
        _ => Err(StoreError::Damaged {
            place: layout_path_text(path),
            reason: "not a socket".to_owned(),
        }),
    }
}

impl SocketNode {
    /// Listens for the children of a session. The session must be held, so an existing socket
    /// belongs to a holder that is gone. The mode is set before the socket gets its name.
    pub(super) fn bind(path: &Path) -> Result<(Self, UnixListener), StoreError> {
        let (dir, name) =
            open_node_dir(path).map_err(storage_error("open the directory of", path))?;
        match rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) => refuse_other_node(&there, path)?,
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(storage_error("look at", path)(error.into())),
        }
        // Its name until it is ready.
        let new = format!("{name}.new");
        let made = || -> io::Result<(UnixListener, Stat)> {
            match rustix::fs::unlinkat(&dir, &new, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            let listener = UnixListener::bind(path_through_node(&dir, path, &new))?;
            rustix::fs::chmodat(&dir, &new, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
            let stat = rustix::fs::statat(&dir, &new, AtFlags::SYMLINK_NOFOLLOW)?;
            rustix::fs::renameat(&dir, &new, &dir, &name)?;
            Ok((listener, stat))
        };
        let (listener, stat) = made().map_err(storage_error("listen at", path))?;
        Ok((Self { dir, name, inode: inode_of(&stat) }, listener))
    }
}

impl Drop for SocketNode {
    /// Removes only its own socket: another holder may have come meanwhile.
    fn drop(&mut self) {
        let there = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|there| inode_of(&there) == self.inode) {
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Why a child is not connected.
pub(super) enum NodeConnectRefusal {
    /// Nobody listens.
    Nobody,
    /// The holder does not answer or has no room.
    Engaged,
    /// Connecting failed.
    Failed(StoreError),
}

impl NodeConnectRefusal {
    /// Classifies an I/O error.
    pub(super) fn by(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let failed = storage_error("connect to", path);
        move |error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Engaged,
            ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe => Self::Nobody,
            _ => Self::Failed(failed(error)),
        }
    }
}

/// Connects to the holder. Waits at most this long if it does not accept.
pub(super) fn connect_relay_node(
    path: &Path,
    wait: Duration,
) -> Result<UnixStream, NodeConnectRefusal> {
    let failed = || NodeConnectRefusal::by(path);
    let (dir, name) = open_node_dir(path).map_err(failed())?;
    let there = rustix::fs::statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW);
    let there = there.map_err(|error| failed()(error.into()))?;
    refuse_other_node(&there, path).map_err(NodeConnectRefusal::Failed)?;
    let stream = connect_to(&path_through_node(&dir, path, &name), wait);
    let stream = stream.map_err(failed())?;
    if peer_is_own_user(&stream, own_user()).map_err(failed())? {
        return Ok(stream);
    }
    let other = "a process of another user is listening";
    Err(failed()(io::Error::new(ErrorKind::PermissionDenied, other)))
}

#[cfg(target_os = "linux")]
fn connect_to(path: &Path, wait: Duration) -> io::Result<UnixStream> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(wait))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(UnixStream::from(socket))
}

#[cfg(not(target_os = "linux"))]
fn connect_to(path: &Path, _wait: Duration) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

/// The user that this process runs as.
pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether the peer runs as this user. On systems that cannot tell, the modes of the socket and its
/// directory have already decided.
pub(super) fn peer_is_own_user(stream: &impl AsFd, user: u32) -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw() == user);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (stream, user);
        Ok(true)
    }
}
