//! The work that goes on while the power may go: writers, some of them killed, and one who takes
//! checkpoints, rewinds and cleans up.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use abide_testkit::Random;

use crate::agent::Agent;
use crate::log::Disk;
use crate::story::{Checkpoint, NEVER, Recorded, Settled, Story, files};

const WRITERS: u64 = 3;
/// Sessions with large payloads that cleanups take.
const PASSING: u64 = 4;

/// Small segments, so that they are rotated and sealed all the time; no room kept free.
const CONFIG: &str =
    "version = 1\n[journal]\nsegment_bytes = 20000\n[workspace]\nmin_free_bytes = 0\n";

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) events: usize,
    pub(crate) generations: u64,
}

struct Work<'a> {
    agent: &'a Agent,
    disk: &'a Disk,
    seed: u64,
    size: Size,
}

/// Does the work on the mounted file system, and tells what was done.
pub(crate) fn work(agent: &Agent, disk: &Disk, seed: u64, size: Size) -> Result<Story, String> {
    Work { agent, disk, seed, size }.run()
}

fn told(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

impl Work<'_> {
    fn run(&self) -> Result<Story, String> {
        for directory in ["home", "project"] {
            let directory = self.agent.mounted.join(directory);
            fs::create_dir(&directory).map_err(told(&directory))?;
        }
        let path = self.make_store()?.join("config.toml");
        let written = fs::File::create(&path).and_then(|mut config| {
            config.write_all(CONFIG.as_bytes())?;
            config.sync_all()
        });
        written.map_err(told(&path))?;
        // The directories are ours, not abide's: they are made durable by us.
        let home = fs::File::open(&self.agent.mounted).and_then(|directory| directory.sync_all());
        home.map_err(told(&self.agent.mounted))?;
        let begun = self.disk.position();

        let mut sessions = Vec::new();
        for writer in 0..PASSING {
            let mut session = self.session(writer + 100)?;
            let mut random = self.random(writer + 100);
            self.life(&mut session, 6, &mut random, Ending::Closed)?;
            sessions.push(session);
        }
        let keeper = self.session(99)?;
        let mut writing = Vec::new();
        for writer in 0..WRITERS {
            writing.push(self.session(writer)?);
        }
        let (writers, files) = std::thread::scope(|scope| {
            let threads: Vec<_> = writing
                .into_iter()
                .map(|session| scope.spawn(move || self.writer(session)))
                .collect();
            let files = scope.spawn(move || self.files(keeper));
            let writers: Vec<_> =
                threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            (writers, files.join())
        });
        let gone = "a writer of the harness ended by itself";
        let files = files.map_err(|_| gone)??;
        for session in &mut sessions {
            session.leaves = files.cleanup;
        }
        for writer in writers {
            sessions.push(writer.map_err(|_| gone)??);
        }
        let keeper = sessions.len();
        sessions.push(files.keeper);
        let (checkpoints, settled) = (files.checkpoints, files.settled);
        Ok(Story { begun, sessions, keeper, checkpoints, settled })
    }

    /// Makes the store, and gives its directory: every other run works in the person's, which the first
    /// recording makes.
    fn make_store(&self) -> Result<PathBuf, String> {
        if self.seed.is_multiple_of(2) {
            self.agent.must(None, &["init"], b"")?;
            return Ok(self.agent.project().join(".abide"));
        }
        self.agent.must(None, &["new", "--key", "writer-100"], b"")?;
        Ok(self.agent.mounted.join("home/.local/share/abide/store"))
    }

    fn random(&self, part: u64) -> Random {
        Random::new(self.seed.wrapping_mul(1_000) + part)
    }

    fn session(&self, writer: u64) -> Result<Recorded, String> {
        let key = format!("writer-{writer}");
        let id = self.agent.must(None, &["new", "--key", &key], b"")?.text();
        Ok(Recorded {
            id,
            writer: self.seed.wrapping_mul(1_000) + writer,
            made: self.disk.position(),
            leaves: NEVER,
            sent: Vec::new(),
            acknowledged: Vec::new(),
        })
    }

    fn writer(&self, mut session: Recorded) -> Result<Recorded, String> {
        let mut random = self.random(session.writer);
        while session.acknowledged.len() < self.size.events {
            let count = 4 + random.index(12);
            let ending = if random.once_in(3) { Ending::Killed } else { Ending::Closed };
            self.life(&mut session, count, &mut random, ending)?;
        }
        Ok(session)
    }

    /// One process that records some events, one at a time and in batches.
    fn life(
        &self,
        session: &mut Recorded,
        count: usize,
        random: &mut Random,
        ending: Ending,
    ) -> Result<(), String> {
        let mut process = self.agent.converse(&session.id)?;
        let until = session.acknowledged.len() + count;
        while session.acknowledged.len() < until {
            let batch = if random.once_in(2) { 1 } else { 1 + random.index(6) };
            let first = session.acknowledged.len();
            let mut lines = String::new();
            for n in first..first + batch {
                if n == session.sent.len() {
                    session.sent.push(self.disk.position());
                }
                lines.push_str(&session.line(n));
            }
            process.send(&lines)?;
            let last = session.acknowledged.len() + batch >= until;
            if last && ending == Ending::Killed {
                // In the midst of a batch, or of what comes after it.
                let wait = std::time::Duration::from_micros(random.below(3_000));
                std::thread::sleep(wait);
                process.kill();
            }
            for _ in 0..batch {
                if process.receive()?.is_none() {
                    if ending == Ending::Killed {
                        return Ok(());
                    }
                    return Err("abide record ended before its input".to_owned());
                }
                session.acknowledged.push(self.disk.position());
            }
        }
        if ending == Ending::Killed { Ok(()) } else { process.end() }
    }

    fn files(&self, mut keeper: Recorded) -> Result<Files, String> {
        let mut random = self.random(500);
        let id = keeper.id.clone();
        let abide = |args: &[&str]| self.agent.must(Some(&id), args, b"");
        let (mut checkpoints, mut settled): (Vec<Checkpoint>, Vec<Settled>) = Default::default();
        let mut cleanup = NEVER;
        for generation in 0..self.size.generations {
            if let Some(last) = settled.last_mut().filter(|last| last.until == NEVER) {
                last.until = self.disk.position();
            }
            self.edit(generation)?;
            abide(&["checkpoint", "create", "-m", &format!("g{generation}")])?;
            checkpoints.push(Checkpoint { generation, acknowledged: self.disk.position() });
            self.life(&mut keeper, 2, &mut random, Ending::Closed)?;
            if generation % 2 == 1 {
                let back = random.below(generation);
                let how: &[&str] = if generation % 4 == 1 { &["--files"] } else { &["--both"] };
                let to = format!("g{back}");
                abide(&[&["rewind", "--to", &to, "--yes"], how].concat())?;
                let from = self.disk.position();
                let (before, until) = (generation, NEVER);
                settled.push(Settled { before, generation: back, from, until });
                self.life(&mut keeper, 2, &mut random, Ending::Closed)?;
            }
            if generation % 3 == 2 {
                // All of the sessions that stay are newer than those that may go.
                let keep = WRITERS + 1 + (PASSING * 2 / (generation + 1)).min(PASSING - 1);
                cleanup = cleanup.min(self.disk.position());
                abide(&["cleanup", "--keep", &keep.to_string(), "--yes"])?;
            }
        }
        Ok(Files { keeper, checkpoints, settled, cleanup })
    }

    /// Makes the files those of a generation, as an editor does: nothing is synced.
    fn edit(&self, generation: u64) -> Result<(), String> {
        let project = self.agent.project();
        let next = files(self.seed, generation);
        for name in crate::oracle::project_files(&project)?.keys() {
            if !next.contains_key(name) {
                let path = project.join(name);
                fs::remove_file(&path).map_err(told(&path))?;
            }
        }
        for (name, bytes) in next {
            let path = project.join(name);
            let directory = path.parent().unwrap_or(&project);
            fs::create_dir_all(directory).map_err(told(directory))?;
            let same = fs::metadata(&path).is_ok_and(|now| now.len() == bytes.len() as u64);
            let written = if same {
                let file = fs::OpenOptions::new().write(true).open(&path);
                file.and_then(|file| file.write_all_at(&bytes, 0))
            } else {
                fs::write(&path, bytes)
            };
            written.map_err(told(&path))?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Closed,
    Killed,
}

struct Files {
    keeper: Recorded,
    checkpoints: Vec<Checkpoint>,
    settled: Vec<Settled>,
    cleanup: usize,
}
