//! A simulated disk.
//!
//! It keeps two worlds: what a running process sees, and what would be there after a power cut.
//! A write is pending until its file is synced, a name until its directory is. A power cut keeps
//! what was synced and an arbitrary part of the rest: sector by sector any version that was ever
//! written, in any order, torn within a sector too; of the names any subset. A sync that fails
//! leaves the bytes visible and never writes them, as a page cache does.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abide_journal::{Access, LockMode, Storage, StorageFile, StorageLock};

use crate::Random;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The device fails.
    Io,
    /// The disk is full.
    Full,
    /// A write writes only a part.
    Short,
    /// A signal comes between.
    Interrupted,
}

/// How long it goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// For one operation.
    Once,
    /// From then on, for operations of the same sort.
    ForGood,
}

/// A fault at an operation.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// At which operation, from 0.
    pub at: u64,
    /// What goes wrong.
    pub kind: FaultKind,
    /// For how long.
    pub lasting: Lasting,
}

/// The sorts of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sort {
    Read,
    Write,
    Sync,
    Name,
    Lock,
}

#[derive(Debug, Clone)]
enum Pending {
    Write { offset: usize, bytes: Arc<[u8]> },
    Truncate { len: usize },
}

#[derive(Debug, Clone, Default)]
struct Inode {
    visible: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    pending: Vec<Pending>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    Dir,
}

#[derive(Debug, Clone)]
enum NameOp {
    Create { path: PathBuf, node: Node },
    Rename { from: PathBuf, to: PathBuf, node: Node },
    Remove { path: PathBuf },
}

/// A copy is cheap: it shares what neither has changed since.
#[derive(Debug, Clone, Default)]
struct World {
    inodes: Vec<Arc<Inode>>,
    names: Arc<BTreeMap<PathBuf, Node>>,
    durable_names: Arc<BTreeMap<PathBuf, Node>>,
    pending_names: Vec<NameOp>,
}

/// The disk as it was just before an operation, and what the run had achieved by then.
#[derive(Debug, Clone)]
pub struct Moment {
    world: World,
    /// What [`SimDisk::note`] was last given.
    pub note: (u64, u64),
}

#[derive(Debug, Default)]
struct Machine {
    world: World,
    locks: HashSet<PathBuf>,
    shared: BTreeMap<PathBuf, usize>,
    operations: u64,
    faults: Vec<Fault>,
    broken: Vec<(Sort, FaultKind)>,
    /// Everything fails from this operation on: the power is gone.
    cut_at: Option<u64>,
    history: Option<Vec<Moment>>,
    note: (u64, u64),
    seed: u64,
    syncs: u64,
    /// How many bytes may still be written; any number where it is not said.
    free: Option<u64>,
}

/// A simulated disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<Machine>>);

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: usize,
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    inode: usize,
    mode: LockMode,
}

const POWER_CUT: &str = "the power is gone";

impl SimDisk {
    /// An empty disk with a root directory.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let disk = Self::default();
        {
            let world = &mut disk.machine().world;
            Arc::make_mut(&mut world.names).insert(root.to_owned(), Node::Dir);
            world.durable_names = world.names.clone();
        }
        disk
    }

    /// The disk as it was at a moment.
    #[must_use]
    pub fn at(moment: &Moment) -> Self {
        let disk = Self::default();
        disk.machine().world = moment.world.clone();
        disk
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations there were.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.machine().operations
    }

    /// How many syncs of files there were.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.machine().syncs
    }

    /// Says how many bytes are free. Writing does not count: it is what who asks is told.
    pub fn set_free(&self, bytes: u64) {
        self.machine().free = Some(bytes);
    }

    /// Makes operations fail. `seed` chooses what a failed sync leaves behind.
    pub fn set_faults(&self, faults: Vec<Fault>, seed: u64) {
        let mut machine = self.machine();
        machine.faults = faults;
        machine.broken.clear();
        machine.operations = 0;
        machine.seed = seed;
    }

    /// Takes the power away at an operation.
    pub fn cut_at(&self, operation: u64) {
        let mut machine = self.machine();
        machine.operations = 0;
        machine.cut_at = Some(operation);
    }

    /// Keeps the disk as it is before every operation from now on.
    pub fn keep_history(&self) {
        self.machine().history = Some(Vec::new());
    }

    /// Takes what was kept, and the disk as it is now.
    #[must_use]
    pub fn take_history(&self) -> Vec<Moment> {
        let mut machine = self.machine();
        let mut history = machine.history.take().unwrap_or_default();
        history.push(Moment { world: machine.world.clone(), note: machine.note });
        history
    }

    /// Notes what the run has achieved: acknowledged and sent.
    pub fn note(&self, acknowledged: u64, sent: u64) {
        self.machine().note = (acknowledged, sent);
    }

    /// The process dies: its locks are gone, what it wrote is still visible.
    pub fn kill(&self) {
        let mut machine = self.machine();
        machine.locks.clear();
        machine.shared.clear();
        machine.faults.clear();
        machine.broken.clear();
        machine.cut_at = None;
        machine.operations = 0;
    }

    /// The power goes and comes back: what was synced is there, and an arbitrary part of the rest.
    pub fn power_cut(&self, seed: u64) {
        self.kill();
        let mut machine = self.machine();
        let mut random = Random::new(seed);
        machine.world.power_cut(&mut random);
    }

    /// The bytes of a file, as a process sees them.
    #[must_use]
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let machine = self.machine();
        match machine.world.names.get(path)? {
            Node::File(inode) => {
                machine.world.inodes.get(*inode).map(|inode| inode.visible.to_vec())
            }
            Node::Dir => None,
        }
    }

    /// Replaces the bytes of a file, durable: damage from outside.
    pub fn set_bytes(&self, path: &Path, bytes: Vec<u8>) {
        let mut machine = self.machine();
        let world = &mut machine.world;
        if let Some(Node::File(inode)) = world.names.get(path).copied()
            && let Some(inode) = world.inodes.get_mut(inode)
        {
            let bytes = Arc::new(bytes);
            *inode =
                Arc::new(Inode { visible: bytes.clone(), durable: bytes, pending: Vec::new() });
        }
    }

    /// Removes a file, durable: damage from outside.
    pub fn remove_file(&self, path: &Path) {
        let mut machine = self.machine();
        Arc::make_mut(&mut machine.world.names).remove(path);
        Arc::make_mut(&mut machine.world.durable_names).remove(path);
    }

    /// Every file, in order.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let machine = self.machine();
        let files = machine.world.names.iter().filter(|(_, node)| matches!(node, Node::File(_)));
        files.map(|(path, _)| path.clone()).collect()
    }
}

impl World {
    fn power_cut(&mut self, random: &mut Random) {
        for inode in &mut self.inodes {
            // Most files are on the platter as they are seen.
            if inode.pending.is_empty() && Arc::ptr_eq(&inode.visible, &inode.durable) {
                continue;
            }
            let inode = Arc::make_mut(inode);
            inode.durable = inode.after_power_cut(random);
            inode.visible = inode.durable.clone();
            inode.pending.clear();
        }
        let all = random.once_in(4);
        for op in std::mem::take(&mut self.pending_names) {
            if all || random.once_in(2) {
                apply_name(Arc::make_mut(&mut self.durable_names), &op);
            }
        }
        // A name whose directory is gone is gone too. A directory comes before what is in it.
        let mut lost: HashSet<&Path> = HashSet::new();
        for path in self.durable_names.keys().skip(1) {
            let dir = path.parent().unwrap_or(path);
            if self.durable_names.get(dir) != Some(&Node::Dir) || lost.contains(dir) {
                lost.insert(path);
            }
        }
        if !lost.is_empty() {
            let lost: Vec<PathBuf> = lost.into_iter().map(Path::to_owned).collect();
            let names = Arc::make_mut(&mut self.durable_names);
            for path in lost {
                names.remove(&path);
            }
        }
        self.names = self.durable_names.clone();
    }
}

fn apply_name(names: &mut BTreeMap<PathBuf, Node>, op: &NameOp) {
    match op {
        NameOp::Create { path, node } => {
            names.insert(path.clone(), *node);
        }
        NameOp::Rename { from, to, node } => {
            // A directory takes along what is in it, and replaces one that is empty.
            let inside: Vec<PathBuf> =
                names.keys().filter(|path| path.starts_with(from)).cloned().collect();
            names.retain(|path, _| !path.starts_with(to) || path.starts_with(from));
            for path in inside {
                if let (Some(moved), Ok(rest)) = (names.remove(&path), path.strip_prefix(from)) {
                    names.insert(
                        if rest == Path::new("") { to.clone() } else { to.join(rest) },
                        moved,
                    );
                }
            }
            names.insert(to.clone(), *node);
        }
        NameOp::Remove { path } => {
            names.remove(path);
        }
    }
}

fn apply(bytes: &mut Vec<u8>, pending: &Pending) {
    match pending {
        Pending::Write { offset, bytes: new } => {
            let end = offset + new.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset..end].copy_from_slice(new);
        }
        Pending::Truncate { len } => bytes.resize(*len, 0),
    }
}

impl Inode {
    /// What is on the platter after a power cut: for each sector any of the versions that were
    /// pending, or the durable one.
    fn after_power_cut(&self, random: &mut Random) -> Arc<Vec<u8>> {
        if self.pending.is_empty() {
            return self.durable.clone();
        }
        Arc::new(self.torn(random))
    }

    fn torn(&self, random: &mut Random) -> Vec<u8> {
        let mut last = self.durable.to_vec();
        let mut versions = vec![last.clone()];
        let chosen = random.index(self.pending.len());
        for (index, pending) in self.pending.iter().enumerate() {
            apply(&mut last, pending);
            // The newest few, and one from before: enough to mix any two.
            if index == chosen || index + 3 >= self.pending.len() {
                versions.push(last.clone());
            }
        }
        match random.below(8) {
            0 => return versions.swap_remove(0),
            1 => return last,
            _ => {}
        }
        let sector = [512, 512, 4096, 64, 1][random.index(5)];
        let len = versions[random.index(versions.len())].len();
        let mut out = vec![0; len];
        for start in (0..len).step_by(sector) {
            let end = (start + sector).min(len);
            let version = &versions[random.index(versions.len())];
            let have = version.len().min(end);
            if have > start {
                out[start..have].copy_from_slice(&version[start..have]);
            }
        }
        out
    }
}

impl Machine {
    /// Counts an operation; says what goes wrong with it.
    fn operation(&mut self, sort: Sort) -> io::Result<Option<FaultKind>> {
        if let Some(history) = &mut self.history {
            // Reading and locking leave nothing behind.
            if !matches!(sort, Sort::Read | Sort::Lock) {
                history.push(Moment { world: self.world.clone(), note: self.note });
            }
        }
        let number = self.operations;
        self.operations += 1;
        if self.cut_at.is_some_and(|cut| number >= cut) {
            return Err(io::Error::other(POWER_CUT));
        }
        if let Some(fault) = self.faults.iter().find(|fault| fault.at == number).copied() {
            if fault.lasting == Lasting::ForGood {
                self.broken.push((sort, fault.kind));
            }
            return Ok(Some(fault.kind));
        }
        Ok(self.broken.iter().find(|(broken, _)| *broken == sort).map(|(_, kind)| *kind))
    }

    /// For operations that either happen or do not.
    fn plain(&mut self, sort: Sort) -> io::Result<()> {
        match self.operation(sort)? {
            None | Some(FaultKind::Short) => Ok(()),
            Some(FaultKind::Io) => Err(io::Error::from_raw_os_error(5)),
            Some(FaultKind::Full) if matches!(sort, Sort::Write | Sort::Name) => {
                Err(io::Error::from_raw_os_error(28))
            }
            Some(FaultKind::Full) => Ok(()),
            // Opening, renaming and syncing may be interrupted as well.
            Some(FaultKind::Interrupted) => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    fn not_found(path: &Path) -> io::Error {
        io::Error::new(io::ErrorKind::NotFound, path.display().to_string())
    }

    fn has_dir(&self, path: &Path) -> bool {
        self.world.names.get(path) == Some(&Node::Dir)
    }

    fn has_inside(&self, path: &Path) -> bool {
        self.world.names.keys().any(|name| name.parent() == Some(path))
    }
}

impl Storage for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let mut machine = self.machine();
        let found = machine.world.names.get(path).copied();
        let creates = found.is_none() && matches!(access, Access::Create | Access::CreateNew);
        machine.plain(if creates { Sort::Name } else { Sort::Read })?;
        let inode = match (found, access) {
            (Some(Node::Dir), _) => return Err(io::ErrorKind::IsADirectory.into()),
            (Some(Node::File(_)), Access::CreateNew) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            (Some(Node::File(inode)), _) => inode,
            (None, Access::Read | Access::Write) => return Err(Machine::not_found(path)),
            (None, Access::Create | Access::CreateNew) => {
                if !path.parent().is_some_and(|parent| machine.has_dir(parent)) {
                    return Err(Machine::not_found(path));
                }
                machine.create(path)
            }
        };
        Ok(Arc::new(SimFile { disk: self.clone(), inode }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut machine = self.machine();
        machine.plain(Sort::Read)?;
        if !machine.has_dir(dir) {
            return Err(Machine::not_found(dir));
        }
        let inside = machine.world.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
    }

    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        if machine.has_dir(dir) {
            return Ok(());
        }
        machine.plain(Sort::Name)?;
        if !dir.parent().is_some_and(|parent| machine.has_dir(parent)) {
            return Err(Machine::not_found(dir));
        }
        Arc::make_mut(&mut machine.world.names).insert(dir.to_owned(), Node::Dir);
        machine.world.pending_names.push(NameOp::Create { path: dir.to_owned(), node: Node::Dir });
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        machine.plain(Sort::Name)?;
        let names = &machine.world.names;
        let node = names.get(from).copied().ok_or_else(|| Machine::not_found(from))?;
        if !to.parent().is_some_and(|parent| machine.has_dir(parent)) {
            return Err(Machine::not_found(to));
        }
        if node == Node::Dir && machine.has_inside(to) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let op = NameOp::Rename { from: from.to_owned(), to: to.to_owned(), node };
        apply_name(Arc::make_mut(&mut machine.world.names), &op);
        machine.world.pending_names.push(op);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        machine.plain(Sort::Name)?;
        if machine.has_inside(path) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let names = Arc::make_mut(&mut machine.world.names);
        names.remove(path).ok_or_else(|| Machine::not_found(path))?;
        machine.world.pending_names.push(NameOp::Remove { path: path.to_owned() });
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.machine().free.unwrap_or(u64::MAX))
    }

    /// Time stands still on this disk.
    fn modified(&self, path: &Path) -> io::Result<std::time::SystemTime> {
        match self.machine().world.names.contains_key(path) {
            true => Ok(std::time::UNIX_EPOCH),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut machine = self.machine();
        let failed = machine.plain(Sort::Sync);
        let world = &mut machine.world;
        let mut rest = Vec::new();
        for op in std::mem::take(&mut world.pending_names) {
            let path = match &op {
                NameOp::Create { path, .. } | NameOp::Remove { path } => path,
                NameOp::Rename { to, .. } => to,
            };
            if path.parent() == Some(dir) && failed.is_ok() {
                apply_name(Arc::make_mut(&mut world.durable_names), &op);
            } else {
                rest.push(op);
            }
        }
        world.pending_names = rest;
        failed
    }

    fn lock(&self, path: &Path, mode: LockMode) -> io::Result<Option<Box<dyn StorageLock>>> {
        let mut machine = self.machine();
        machine.plain(Sort::Lock)?;
        let inode = match machine.world.names.get(path).copied() {
            Some(Node::File(inode)) => inode,
            Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
            None => {
                if !path.parent().is_some_and(|parent| machine.has_dir(parent)) {
                    return Err(Machine::not_found(path));
                }
                machine.create(path)
            }
        };
        let shared = machine.shared.get(path).copied().unwrap_or(0);
        if machine.locks.contains(path) || (mode == LockMode::Exclusive && shared > 0) {
            return Ok(None);
        }
        match mode {
            LockMode::Exclusive => {
                machine.locks.insert(path.to_owned());
            }
            LockMode::Shared => *machine.shared.entry(path.to_owned()).or_default() += 1,
        }
        drop(machine);
        Ok(Some(Box::new(SimLock { disk: self.clone(), path: path.to_owned(), inode, mode })))
    }
}

impl Machine {
    fn create(&mut self, path: &Path) -> usize {
        self.world.inodes.push(Arc::default());
        let inode = self.world.inodes.len() - 1;
        let node = Node::File(inode);
        Arc::make_mut(&mut self.world.names).insert(path.to_owned(), node);
        self.world.pending_names.push(NameOp::Create { path: path.to_owned(), node });
        inode
    }
}

impl StorageFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.disk.machine();
        let fault = machine.operation(Sort::Read)?;
        match fault {
            Some(FaultKind::Io) => return Err(io::Error::from_raw_os_error(5)),
            Some(FaultKind::Interrupted) if machine.broken.is_empty() => {
                return Err(io::ErrorKind::Interrupted.into());
            }
            _ => {}
        }
        let visible = &machine.world.inodes[self.inode].visible;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(visible.len());
        let mut count = buf.len().min(visible.len() - start);
        if fault == Some(FaultKind::Short) {
            count = count.min(7);
        }
        buf[..count].copy_from_slice(&visible[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.disk.machine();
        let cut = machine.cut_at.is_some_and(|cut| machine.operations == cut);
        let fault = machine.operation(Sort::Write);
        if fault.is_err() && !cut {
            return fault.map(|_| 0);
        }
        let count = match &fault {
            Ok(Some(FaultKind::Io)) => return Err(io::Error::from_raw_os_error(5)),
            Ok(Some(FaultKind::Full)) => return Err(io::Error::from_raw_os_error(28)),
            Ok(Some(FaultKind::Interrupted)) if machine.broken.is_empty() => {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(Some(FaultKind::Short)) => buf.len().div_ceil(2).min(97),
            _ => buf.len(),
        };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let pending = Pending::Write { offset, bytes: buf[..count].into() };
        let inode = Arc::make_mut(&mut machine.world.inodes[self.inode]);
        apply(Arc::make_mut(&mut inode.visible), &pending);
        inode.pending.push(pending);
        // A write that the power cut came upon may have got through in part.
        fault.map(|_| count)
    }

    fn len(&self) -> io::Result<u64> {
        let mut machine = self.disk.machine();
        machine.plain(Sort::Read)?;
        Ok(machine.world.inodes[self.inode].visible.len() as u64)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut machine = self.disk.machine();
        machine.plain(Sort::Write)?;
        let pending = Pending::Truncate { len: usize::try_from(len).unwrap_or(usize::MAX) };
        let inode = Arc::make_mut(&mut machine.world.inodes[self.inode]);
        apply(Arc::make_mut(&mut inode.visible), &pending);
        inode.pending.push(pending);
        Ok(())
    }

    fn overwrites_in_place(&self) -> bool {
        true
    }

    fn sync(&self) -> io::Result<()> {
        let mut machine = self.disk.machine();
        let failed = machine.plain(Sort::Sync);
        let mut random = Random::new(machine.seed ^ machine.operations);
        machine.syncs += 1;
        let inode = Arc::make_mut(&mut machine.world.inodes[self.inode]);
        if failed.is_ok() {
            for pending in std::mem::take(&mut inode.pending) {
                apply(Arc::make_mut(&mut inode.durable), &pending);
            }
        } else {
            // Some of it got out, and the rest is taken to be clean: it will never be written.
            inode.durable = inode.after_power_cut(&mut random);
            inode.pending.clear();
        }
        failed
    }
}

impl StorageLock for SimLock {
    fn still_holds(&self) -> io::Result<bool> {
        let mut machine = self.disk.machine();
        machine.plain(Sort::Lock)?;
        Ok(machine.world.names.get(&self.path) == Some(&Node::File(self.inode)))
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut machine = self.disk.machine();
        match self.mode {
            LockMode::Exclusive => {
                machine.locks.remove(&self.path);
            }
            LockMode::Shared => {
                if let Some(count) = machine.shared.get_mut(&self.path) {
                    *count -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (SimDisk, PathBuf) {
        let root = PathBuf::from("/sim");
        (SimDisk::new(&root), root)
    }

    #[test]
    fn what_was_synced_survives_every_power_cut_and_the_rest_sometimes() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..500 {
            let (disk, root) = root();
            let path = root.join("file");
            let file = disk.open(&path, Access::CreateNew).unwrap();
            file.write_at(&[1; 600], 0).unwrap();
            file.sync().unwrap();
            disk.sync_dir(&root).unwrap();
            file.write_at(&[2; 600], 600).unwrap();
            disk.power_cut(seed);
            let bytes = disk.bytes(&path).unwrap();
            assert_eq!(bytes[..600], [1; 600]);
            if bytes.len() == 600 { lost += 1 } else { kept += 1 }
        }
        assert!(lost > 50 && kept > 50, "{lost} {kept}");
    }

    #[test]
    fn a_name_is_there_for_certain_only_after_its_directory_was_synced() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..200 {
            let (disk, root) = root();
            let path = root.join("file");
            disk.open(&path, Access::CreateNew).unwrap().sync().unwrap();
            disk.power_cut(seed);
            if disk.bytes(&path).is_some() { kept += 1 } else { lost += 1 }
        }
        assert!(lost > 20 && kept > 20);
    }

    #[test]
    fn a_failed_sync_is_visible_and_gone() {
        let mut gone = 0;
        for seed in 0..100 {
            let (disk, root) = root();
            let path = root.join("file");
            let file = disk.open(&path, Access::CreateNew).unwrap();
            disk.sync_dir(&root).unwrap();
            disk.set_faults(
                vec![Fault { at: 1, kind: FaultKind::Io, lasting: Lasting::Once }],
                seed,
            );
            file.write_at(&[1; 600], 0).unwrap();
            assert!(file.sync().is_err());
            assert_eq!(disk.bytes(&path).unwrap(), [1; 600]);
            // The second sync says that all is well, as Linux does.
            file.sync().unwrap();
            disk.power_cut(seed);
            gone += u32::from(disk.bytes(&path).unwrap() != [1; 600]);
        }
        assert!(gone > 20);
    }

    #[test]
    fn locks_exclude_and_end_with_the_process() {
        let (disk, root) = root();
        let path = root.join("lock");
        let held = disk.lock(&path, LockMode::Exclusive).unwrap();
        assert!(disk.lock(&path, LockMode::Shared).unwrap().is_none());
        disk.kill();
        assert!(disk.lock(&path, LockMode::Exclusive).unwrap().is_some());
        drop(held);
    }
}
