//! What the machine can do: the same bytes, straight to a file, with nothing around them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;
use crate::text::PIECE;

/// A file that 1 KiB is appended to, followed by an `fdatasync`, again and again.
#[derive(Debug)]
pub(crate) struct RawFile(File);

impl RawFile {
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        Ok(Self(file))
    }

    pub(crate) fn append(&mut self) {
        let block = [b'x'; PIECE];
        self.0.write_all(&block).expect("a raw write");
        self.0.sync_data().expect("a raw sync");
    }
}

/// Lets each worker do its work in a thread of its own, all starting at once. Says how long it
/// took until the last was done.
pub(crate) fn together<T: Send>(
    workers: &mut [T],
    work: impl Fn(usize, &mut T) + Sync,
) -> Duration {
    let barrier = Barrier::new(workers.len() + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .enumerate()
            .map(|(index, worker)| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(index, worker);
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().expect("a worker");
        }
        start.elapsed()
    })
}

/// Time on the clock, and on the processor by this thread.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Spent {
    /// Adds what `work` takes.
    pub(crate) fn add(&mut self, work: impl FnOnce()) {
        let (wall, cpu) = (Instant::now(), thread_cpu());
        work();
        self.wall += wall.elapsed();
        self.cpu += thread_cpu().saturating_sub(cpu);
    }

    /// How many in a second, when there were `count`.
    pub(crate) fn rate(self, count: usize) -> f64 {
        rate(count, self.wall)
    }

    /// Processor time of each, in microseconds.
    pub(crate) fn cpu_micros(self, count: usize) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / count as f64
    }
}

/// How many in a second.
pub(crate) fn rate(count: usize, wall: Duration) -> f64 {
    count as f64 / wall.as_secs_f64()
}

pub(crate) fn millis(wall: Duration) -> f64 {
    wall.as_secs_f64() * 1e3
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
