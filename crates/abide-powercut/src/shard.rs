//! One run on one file system: the work is done once, then the power goes at many moments of it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::command::tool;
use crate::cut::{Honesty, Loss, Replay};
use crate::filesystem::{FileSystem, Mounted};
use crate::image::Image;
use crate::log::{Disk, Record};
use crate::oracle::{Fault, Oracle, Warnings};
use crate::plan::Cut;
use crate::served;
use crate::trace::{Head, Trace};
use crate::work::{Size, work};

/// What a shard is to do.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) kind: FileSystem,
    pub(crate) seed: u64,
    pub(crate) cuts: usize,
    /// Cuts on a disk that lies.
    pub(crate) lies: usize,
    pub(crate) size: Size,
    pub(crate) binary: PathBuf,
    /// A directory of its own.
    pub(crate) room: PathBuf,
    /// Where a run goes that had a fault.
    pub(crate) traces: PathBuf,
}

/// What came of it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) writes: usize,
    pub(crate) flushes: usize,
    /// Events and checkpoints that were acknowledged.
    pub(crate) acknowledged: usize,
    pub(crate) cuts: usize,
    /// Cuts that took something, or tore it.
    pub(crate) lossy: usize,
    /// Cuts after which the file system was on the device that it was on before.
    pub(crate) same_device: usize,
    pub(crate) warnings: Warnings,
    pub(crate) faults: Vec<(usize, Fault)>,
    pub(crate) trace: Option<PathBuf>,
    /// Cuts on a lying disk, and which of them were noticed.
    pub(crate) stands: (usize, usize),
    pub(crate) lies: (usize, usize),
    /// What was said of those, for people.
    pub(crate) lies_said: Vec<String>,
}

/// Runs a shard. An error is one of the harness, or of the work itself.
pub(crate) fn run(order: &Order) -> Result<Outcome, String> {
    let (trace, device) = record(order)?;
    let flushes = trace.records.iter().filter(|record| **record == Record::Flush).count();
    let events = trace.head.story.sessions.iter().map(|session| session.acknowledged.len());
    let mut outcome = Outcome {
        writes: trace.records.len() - flushes,
        flushes,
        acknowledged: events.sum::<usize>() + trace.head.story.checkpoints.len(),
        ..Outcome::default()
    };
    if flushes < outcome.acknowledged / 8 {
        // Answers of one batch share a flush, but no more than that.
        return Err(format!("{flushes} flushes for {} answers", outcome.acknowledged));
    }
    let mut cuts: Vec<_> = (0..order.cuts).map(|number| Cut::honest(&trace, number)).collect();
    cuts.sort_by_key(|cut| cut.at);
    let lab =
        Lab { trace: &trace, binary: &order.binary, room: &order.room, device: Some(&device) };
    let mut replay = Replay::new(trace.base.clone(), &trace.records);
    for cut in cuts {
        let tried = lab.cut(&mut replay, &cut)?;
        outcome.cuts += 1;
        outcome.lossy += usize::from(tried.loss.dropped + tried.loss.torn > 0);
        outcome.same_device += usize::from(tried.same_device);
        match tried.found {
            Ok(warnings) => {
                for (rule, count) in warnings {
                    *outcome.warnings.entry(rule).or_default() += count;
                }
            }
            Err(fault) => outcome.faults.push((cut.number, fault)),
        }
    }
    for number in 0..order.lies {
        let cut = Cut::lying(&trace, number);
        let mut replay = Replay::new(trace.base.clone(), &trace.records);
        let tried = lab.cut(&mut replay, &cut)?;
        let caught = usize::from(tried.found.is_err());
        let tally = match cut.honesty {
            Honesty::Stands { .. } => &mut outcome.stands,
            _ => &mut outcome.lies,
        };
        *tally = (tally.0 + 1, tally.1 + caught);
        outcome.lies_said.push(format!("{:?} at {}: {:?}", cut.honesty, cut.at, tried.found));
    }
    if !outcome.faults.is_empty() {
        let name = format!("powercut-{}-{}.trace", order.kind.name(), order.seed);
        let path = order.traces.join(name);
        trace.write(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        outcome.trace = Some(path);
    }
    Ok(outcome)
}

/// Makes one cut of a trace again.
pub(crate) fn again(path: &Path, number: usize, binary: &Path, room: &Path) -> Result<(), String> {
    let trace = Trace::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    new_boot(room)?;
    fs::create_dir_all(&trace.head.mounted).map_err(|error| error.to_string())?;
    let cut = Cut::honest(&trace, number);
    let lab = Lab { trace: &trace, binary, room, device: None };
    let tried = lab.cut(&mut Replay::new(trace.base.clone(), &trace.records), &cut)?;
    for made in trace.head.mounted.ancestors().take(2) {
        // Made above; one that holds something is not ours.
        let _ = fs::remove_dir(made);
    }
    println!("cut {number} at {} of {}: {:?}", cut.at, trace.records.len(), tried.loss);
    match tried.found {
        Ok(_) => Ok(()),
        Err(fault) => Err(format!("{fault:?}")),
    }
}

/// Can the file system be made and mounted here?
pub(crate) fn probe(order: &Order) -> Result<(), String> {
    let bench = Bench::new(order)?;
    bench.end()
}

/// A file system on a disk that remembers everything.
struct Bench {
    base: Image,
    disk: Disk,
    mounted: PathBuf,
    mount: Mounted,
    server: fuser::BackgroundSession,
}

impl Bench {
    fn new(order: &Order) -> Result<Self, String> {
        let told = |error: std::io::Error| format!("{}: {error}", order.room.display());
        let [served_at, mounted, empty] =
            ["served", "mounted", "empty"].map(|name| order.room.join(name));
        fs::create_dir_all(&served_at).and_then(|()| fs::create_dir_all(&mounted)).map_err(told)?;
        order.kind.make(&empty)?;
        let base = Image::load(&empty).map_err(told)?;
        fs::remove_file(&empty).map_err(told)?;
        let disk = Disk::new(base.clone());
        let server =
            served::serve(disk.clone(), &served_at).map_err(|error| format!("FUSE: {error}"))?;
        let mount = Mounted::mount(order.kind, &served_at.join(served::FILE), &mounted, None)?;
        Ok(Self { base, disk, mounted, mount, server })
    }

    fn end(self) -> Result<(), String> {
        self.mount.unmount()?;
        self.server.umount_and_join().map_err(|error| format!("FUSE: {error}"))
    }
}

/// Does the work, and writes down what the disk saw of it.
fn record(order: &Order) -> Result<(Trace, String), String> {
    let bench = Bench::new(order)?;
    let device = bench.mount.device.clone();
    let (mounted, disk, base) = (bench.mounted.clone(), bench.disk.clone(), bench.base.clone());
    let agent = Agent { binary: order.binary.clone(), mounted: mounted.clone() };
    let story = work(&agent, &disk, order.seed, order.size);
    // What comes with the unmounting is no part of the story.
    let end = disk.position();
    bench.end()?;
    let mut records = disk.take_records();
    records.truncate(end);
    new_boot(&order.room)?;
    let head = Head { kind: order.kind, seed: order.seed, mounted, story: story? };
    Ok((Trace { head, base, records }, device))
}

/// After a power cut the machine has started anew; abide sees that by the id of the boot. The
/// mounts here are of this process alone, so that nobody else sees it.
fn new_boot(room: &Path) -> Result<(), String> {
    let path = room.join("boot_id");
    fs::write(&path, "b007b007-b007-4007-8007-b007b007b007\n")
        .map_err(|error| error.to_string())?;
    let at = Path::new("/proc/sys/kernel/random/boot_id");
    tool("mount", &["--bind".as_ref(), path.as_os_str(), at.as_os_str()]).map(drop)
}

struct Lab<'a> {
    trace: &'a Trace,
    binary: &'a Path,
    room: &'a Path,
    device: Option<&'a str>,
}

/// A cut, and what was found after it.
struct Tried {
    loss: Loss,
    same_device: bool,
    found: Result<Warnings, Fault>,
}

impl Lab<'_> {
    fn cut(&self, replay: &mut Replay<'_>, cut: &Cut) -> Result<Tried, String> {
        let head = &self.trace.head;
        let (image, loss) = replay.cut(cut.at, cut.honesty, &mut cut.random.clone());
        let file = self.room.join("left");
        image.store(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mounted = head
            .kind
            .check(&file)
            .and_then(|()| Mounted::mount(head.kind, &file, &head.mounted, self.device));
        let mount = match mounted {
            Ok(mount) => mount,
            Err(error) => {
                let found = Err(Fault::Unmountable(error));
                return Ok(Tried { loss, same_device: false, found });
            }
        };
        let same_device = self.device == Some(&mount.device);
        let agent = Agent { binary: self.binary.to_owned(), mounted: head.mounted.clone() };
        let oracle = Oracle {
            agent: &agent,
            story: &head.story,
            seed: head.seed,
            at: cut.at,
            cut: cut.number,
        };
        let found = oracle.check();
        mount.unmount()?;
        fs::remove_file(&file).map_err(|error| error.to_string())?;
        Ok(Tried { loss, same_device, found })
    }
}
