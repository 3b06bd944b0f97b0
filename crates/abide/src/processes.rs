//! Processes: the resource usage of a process and its descendants, what it left behind, and how to
//! end that.
//!
//! Uses `/proc` on Linux. On other systems nothing is found and nothing is ended.

mod marked;
mod process_ending;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use abide_model::ResourceSample;

pub use marked::{RUN_VARIABLE, processes_marked};
pub use process_ending::end_processes;

/// Maximum number of parents to follow. Guards against a loop of parents, which should not exist.
const ANCESTORS: usize = 1024;

/// The relevant fields of `/proc/PID/stat`.
struct Process {
    state: char,
    parent: u32,
    cpu_ticks: u64,
    /// Start time. With the process id it identifies the process.
    started: u64,
    rss_pages: u64,
}

impl Process {
    fn read(process: u32) -> Option<Self> {
        let line =
            read_process_file(Path::new(&format!("/proc/{process}/stat")), LINE, LINE as u64)?;
        parse_process_stat(&String::from_utf8_lossy(&line))
    }

    /// A zombie counts as gone.
    const fn is_gone(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Longer than any line of `/proc/PID/stat`.
const LINE: usize = 4096;

/// Reads at most `most` bytes of a file in `/proc`. Such a file does not report its length, so
/// `usual` bytes are read at once rather than a few at a time.
fn read_process_file(path: &Path, usual: usize, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usual);
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// All processes; `None` if the system does not list them.
fn all_processes() -> Option<HashMap<u32, Process>> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(numbers.filter_map(|id| Some((id, Process::read(id)?))).collect())
}

/// Returns true if `root` is the process `id` or one of its ancestors.
fn is_process_above(all: &HashMap<u32, Process>, root: u32, id: u32) -> bool {
    let up = std::iter::successors(Some(id), |id| all.get(id).map(|process| process.parent));
    up.take(ANCESTORS).any(|id| id == root)
}

/// This process and its ancestors.
fn own_process_line() -> HashSet<u32> {
    let parent = |id: &u32| Process::read(*id).map(|process| process.parent);
    std::iter::successors(Some(std::process::id()), parent).take(ANCESTORS).collect()
}

/// The current resource usage of the process `root` and its descendants. `None` if it is gone, or
/// if the system does not report it.
#[must_use]
pub fn process_tree(root: u32) -> Option<ResourceSample> {
    if Path::new("/proc/thread-self/children").exists() {
        return process_tree_by_children(root);
    }
    let all = all_processes()?;
    all.contains_key(&root).then(|| sum_process_resources(&all, root))
}

/// Walks down from the root, reading only its own descendants. May miss a process that starts or
/// ends meanwhile, which is good enough for a sample.
fn process_tree_by_children(root: u32) -> Option<ResourceSample> {
    let mut total = ResourceTotal::new();
    total.add(&Process::read(root)?);
    let (mut seen, mut next) = (HashSet::from([root]), process_children(root));
    while let Some(id) = next.pop() {
        if seen.insert(id)
            && let Some(process) = Process::read(id)
        {
            total.add(&process);
            next.extend(process_children(id));
        }
    }
    Some(total.sum)
}

/// The children of all threads of a process.
fn process_children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads
        .filter_map(|thread| read_process_file(&thread.path().join("children"), LINE, 1 << 20));
    let ids = |list: Vec<u8>| -> Vec<u32> {
        let list = String::from_utf8_lossy(&list);
        list.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
    };
    lists.flat_map(ids).collect()
}

/// The running descendants of the process `root`, without itself. A process whose parent has ended
/// gets another parent and is not found; [`processes_marked`] finds those.
#[must_use]
pub fn descendant_processes(root: u32) -> Vec<u32> {
    let Some(all) = all_processes() else { return Vec::new() };
    let mut found: Vec<u32> = all
        .iter()
        .filter(|(id, process)| {
            **id != root && !process.is_gone() && is_process_above(&all, root, **id)
        })
        .map(|(id, _)| *id)
        .collect();
    found.sort_unstable();
    found
}

fn sum_process_resources(all: &HashMap<u32, Process>, root: u32) -> ResourceSample {
    let mut total = ResourceTotal::new();
    let below = all.iter().filter(|(id, _)| is_process_above(all, root, **id));
    below.for_each(|(_, process)| total.add(process));
    total.sum
}

/// The summed resource usage of processes.
struct ResourceTotal {
    page: u64,
    ticks: u64,
    sum: ResourceSample,
}

impl ResourceTotal {
    fn new() -> Self {
        let page = rustix::param::page_size() as u64;
        let ticks = rustix::param::clock_ticks_per_second().max(1);
        Self { page, ticks, sum: ResourceSample::default() }
    }

    fn add(&mut self, process: &Process) {
        self.sum.processes += 1;
        self.sum.rss_bytes += process.rss_pages * self.page;
        self.sum.cpu_ms += process.cpu_ticks * 1000 / self.ticks;
    }
}

/// Parses a line of `/proc/PID/stat`. The program's name is in parentheses and can contain
/// anything.
fn parse_process_stat(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    Some(Process {
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(1)?).ok()?,
        cpu_ticks: number(11)?.checked_add(number(12)?)?,
        started: number(19)?,
        rss_pages: number(21)?,
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_tree_counts_its_children_and_one_that_is_gone_is_none() {
        let before = process_tree(std::process::id()).unwrap();
        assert!(before.processes >= 1 && before.rss_bytes > 100_000);
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let during = process_tree(std::process::id()).unwrap();
        assert!(during.processes > 1);
        let alone = process_tree(child.id()).unwrap();
        assert_eq!(alone.processes, 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(process_tree(child.id()), None);
    }

    #[test]
    fn a_tree_is_the_same_from_above_and_from_among_all() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 30 & sh -c 'sleep 30 & echo; wait' & wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let counted = |sample: Option<ResourceSample>| sample.unwrap().processes;
        assert_eq!(counted(all_processes().map(|all| sum_process_resources(&all, child.id()))), 4);
        assert_eq!(counted(process_tree_by_children(child.id())), 4);
        let mut below = descendant_processes(child.id());
        below.push(child.id());
        assert!(end_processes(&below, std::time::Duration::from_secs(30)) > 0);
        child.wait().unwrap();
        assert_eq!(process_tree_by_children(child.id()).map(|_| ()), None);
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_mislead() {
        let stat = "7 (a) b) (c) S 3 7 7 0 -1 4194560 1 0 0 0 11 22 0 0 20 0 1 0 99 1000 55 0";
        let process = parse_process_stat(stat).unwrap();
        assert_eq!((process.parent, process.cpu_ticks, process.rss_pages), (3, 33, 55));
        assert_eq!((process.state, process.started), ('S', 99));
    }

    #[test]
    fn descendants_are_those_below_that_still_run() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 30 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();
        assert_eq!(descendant_processes(child.id()), [grandchild]);
        let own = descendant_processes(std::process::id());
        assert!(own.contains(&child.id()) && own.contains(&grandchild), "{own:?}");
        assert!(!own.contains(&std::process::id()));
        assert_eq!(end_processes(&[child.id(), grandchild], std::time::Duration::from_secs(30)), 2);
        // Not fetched yet, and gone all the same.
        assert!(!descendant_processes(std::process::id()).contains(&child.id()));
        child.wait().unwrap();
        assert_eq!(descendant_processes(child.id()), [0_u32; 0]);
    }
}
