//! What a process and all that it started use.

use std::collections::HashMap;
use std::fs;

use abide_model::ResourceSample;

/// The process of `/proc/PID/stat`, as far as it matters here.
struct Process {
    parent: u32,
    cpu_ticks: u64,
    rss_pages: u64,
}

/// What the process `root` and its descendants use now. `None` where it is gone, or where the
/// system does not tell.
#[must_use]
pub fn process_tree(root: u32) -> Option<ResourceSample> {
    let mut all = HashMap::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat"));
        if let Some(process) = stat.ok().as_deref().and_then(parse) {
            all.insert(id, process);
        }
    }
    all.contains_key(&root).then(|| sum(&all, root))
}

fn sum(all: &HashMap<u32, Process>, root: u32) -> ResourceSample {
    let page = rustix::param::page_size() as u64;
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let mut sample = ResourceSample::default();
    for (id, process) in all {
        // Upwards from each; a loop of parents cannot be, but is not trusted.
        let mut up = *id;
        for _ in 0..1024 {
            if up == root {
                sample.processes += 1;
                sample.rss_bytes += process.rss_pages * page;
                sample.cpu_ms += process.cpu_ticks * 1000 / ticks;
                break;
            }
            match all.get(&up) {
                Some(parent) => up = parent.parent,
                None => break,
            }
        }
    }
    sample
}

/// Reads a line of `/proc/PID/stat`. The name of the program stands in brackets and may hold
/// anything.
fn parse(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    Some(Process {
        parent: u32::try_from(number(1)?).ok()?,
        cpu_ticks: number(11)?.checked_add(number(12)?)?,
        rss_pages: number(21)?,
    })
}

#[cfg(all(test, target_os = "linux"))]
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
    fn a_name_with_brackets_and_blanks_does_not_mislead() {
        let stat = "7 (a) b) (c) S 3 7 7 0 -1 4194560 1 0 0 0 11 22 0 0 20 0 1 0 99 1000 55 0";
        let process = parse(stat).unwrap();
        assert_eq!((process.parent, process.cpu_ticks, process.rss_pages), (3, 33, 55));
    }
}
