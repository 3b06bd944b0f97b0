//! A tree with its store and its shadow repository, and what is measured on it.

use std::path::PathBuf;

use abide_workspace::TakenSnapshot;

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::{Growth, RawFile};
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::workspace::bare::pack;
use crate::workspace::keeper::Keeper;
use crate::workspace::shadow::Shadow;
use crate::workspace::tree::Tree;
use crate::workspace::turn::{hold, in_turns, timed};
use crate::workspace::walk::walk;

/// How many files are edited at once.
pub(crate) const TEN: usize = 10;
/// Looking at what did not change is short, and done so often in a round.
const EACH: usize = 4;
/// Trees with more files have fewer rounds of what takes seconds.
pub(crate) const LARGE: u64 = 40_000;
const LARGE_ROUNDS: usize = 3;
/// Below this, what is paid once weighs more.
const SMALL: u64 = 10_000;

/// A tree, and who has taken it.
#[derive(Debug)]
pub(crate) struct Site {
    tree: Tree,
    keeper: Keeper,
    shadow: Shadow,
    /// Their first snapshots.
    taken: TakenSnapshot,
    taken_by_git: String,
    files: u64,
    packed: Option<Shadow>,
}

impl Site {
    /// Takes the first snapshots.
    pub(crate) fn first(bench: &Bench, tree: Tree, rounds: usize) -> Outcome<(Self, [Figure; 2])> {
        let work = tree.work();
        let met = walk(&work)?;
        let rounds = if met.files > LARGE { rounds.min(LARGE_ROUNDS) } else { rounds };
        let listed = Shadow::init(&tree.beside("git-listed"), &work)?.files()?;
        if (listed.len() as u64) < met.files / 2 {
            return Err(format!("{}: most files are ignored", tree.name).into());
        }
        let mut git = of(&tree.name, "first.git", Target::RatioAtMost(0.12));
        let mut bare = of(&tree.name, "first.bare", Target::RatioAtMost(1.2));
        let mut last = None;
        let mut packed = None;
        for round in 0..rounds {
            eprintln!("{}: first snapshot, round {} of {rounds}", tree.name, round + 1);
            let keeper = Keeper::new(&tree.beside(&format!("store-{round}")), &work);
            let shadow = Shadow::init(&tree.beside(&format!("git-{round}")), &work)?;
            let (mut taken, mut taken_by_git) = (None, None);
            let [ours, theirs, least] = in_turns(
                round,
                [
                    &mut || hold(&mut taken, keeper.snapshot()),
                    &mut || hold(&mut taken_by_git, shadow.snapshot()),
                    &mut || hold(&mut packed, pack(&work, &listed)),
                ],
            )?;
            git.push_with_raw(ours, theirs);
            bare.push_with_raw(ours, least);
            last = Some((keeper, shadow, taken, taken_by_git));
        }
        let Some((keeper, shadow, Some(taken), Some(taken_by_git))) = last else {
            return Err("no round was done".into());
        };
        let (read, left) = packed.ok_or("nothing was packed")?;
        git.note("raw", "git add -A, git write-tree");
        bare.note("raw", "BLAKE3 and zstd 1 of the same files in blocks, two threads");
        bare.note("raw_bytes", left);
        for figure in [&mut git, &mut bare] {
            figure.note("files", taken.snapshot.files);
            figure.note("bytes", taken.snapshot.bytes);
            figure.note("bytes_of_git", read);
        }
        let files = met.files;
        let site = Self { tree, keeper, shadow, taken, taken_by_git, files, packed: None };
        if let Some(other) = site.taken_otherwise(listed.len() as u64, read) {
            bench.skip(&format!("workspace.{}.first.same", site.tree.name), &other);
        }
        Ok((site, [git, bare]))
    }

    /// In what abide's snapshot differs from git's files.
    fn taken_otherwise(&self, listed: u64, bytes: u64) -> Option<String> {
        let ours = &self.taken.snapshot;
        // Symbolic links are files here, and their text is not counted there.
        let links = ours.files.abs_diff(listed);
        (links > ours.files / 100 || ours.bytes.abs_diff(bytes) > ours.bytes / 100).then(|| {
            format!(
                "abide took {} files of {} bytes, git {listed} of {bytes}",
                ours.files, ours.bytes
            )
        })
    }

    /// The shadow repository, packed; made the first time.
    pub(crate) fn pack(&mut self) -> Outcome {
        if self.packed.is_none() {
            eprintln!("{}: git gc", self.tree.name);
            let dir = self.tree.beside("git-packed");
            self.packed = Some(self.shadow.packed(&dir, &self.taken_by_git)?);
        }
        Ok(())
    }

    pub(crate) fn is_large(&self) -> bool {
        self.files > LARGE
    }

    pub(crate) fn name(&self) -> &str {
        &self.tree.name
    }

    /// Bytes after the first snapshot; before anything else was taken.
    pub(crate) fn size(&self) -> Outcome<Figure> {
        let packed = self.packed.as_ref().ok_or("the shadow repository is not packed")?;
        let target = Target::RatioAtMost(1.0);
        let name = format!("workspace.{}.size.git", self.tree.name);
        let mut figure = Figure::new(name, "MB", Better::Lower, target);
        figure.push_with_raw(mega(self.keeper.bytes()?), mega(packed.bytes()?));
        figure.note("raw", "the shadow repository after git gc");
        figure.note("objects", rounded(mega(self.keeper.object_bytes()?)));
        figure.note("git_objects", rounded(mega(packed.object_bytes()?)));
        figure.note("git_before_gc", rounded(mega(self.shadow.bytes()?)));
        Ok(figure)
    }

    /// Takes snapshots of what did not change.
    pub(crate) fn unchanged(&mut self, bench: &Bench) -> Outcome<[Figure; 3]> {
        let name = &self.tree.name;
        let mut bare = of(name, "walk", Target::None);
        let mut walked = of(name, "unchanged.walk", Target::RatioAtMost(1.25));
        let mut git = of(name, "unchanged.git", Target::RatioAtMost(0.33));
        let work = self.tree.work();
        self.warm(bench)?;
        let (mut met, mut taken) = (None, None);
        for round in 0..bench.rounds * EACH {
            let [least, ours, theirs] = in_turns(
                round,
                [
                    &mut || hold(&mut met, walk(&work)),
                    &mut || hold(&mut taken, self.keeper.snapshot()),
                    &mut || self.shadow.snapshot().map(drop),
                ],
            )?;
            if taken.as_ref().is_none_or(|taken| !taken.unchanged) {
                return Err("a snapshot differs though nothing changed".into());
            }
            bare.push(least);
            walked.push_with_raw(ours, least);
            git.push_with_raw(ours, theirs);
        }
        let met = met.ok_or("nothing was walked")?;
        bare.note("files", met.files);
        bare.note("directories", met.directories);
        bare.note("bytes", met.bytes);
        walked.note("raw", "every directory listed and every name's metadata read, two threads");
        git.note("raw", "git add -A, git write-tree");
        Ok([bare, walked, git])
    }

    /// Waits until the files are old and lets both remember that.
    fn warm(&self, bench: &Bench) -> Outcome {
        self.tree.settle(bench);
        self.keeper.snapshot()?;
        self.shadow.snapshot()?;
        Ok(())
    }

    pub(crate) fn ten(&self) -> Ten {
        let name = &self.tree.name;
        let most = if self.files < SMALL { 2.0 } else { 1.6 };
        Ten {
            walked: of(name, "ten.walk", Target::RatioAtMost(most)),
            git: of(name, "ten.git", Target::RatioAtMost(0.33)),
            restored: of(name, "restore.ten.git", Target::RatioAtMost(0.35)),
            syncs: Vec::new(),
        }
    }

    /// Ten files are edited and taken, ten others are edited and put back.
    pub(crate) fn ten_round(&mut self, bench: &Bench, round: usize, ten: &mut Ten) -> Outcome {
        self.warm(bench)?;
        let Self { tree, keeper, shadow, .. } = self;
        let work = tree.work();
        ten.syncs.push(sync_ms(tree, round)?);
        let picked = tree.pick(TEN)?;
        tree.edit(&picked)?;
        let (mut taken, mut taken_by_git) = (None, None);
        let [least, ours, theirs] = in_turns(
            round,
            [
                &mut || walk(&work).map(drop),
                &mut || hold(&mut taken, keeper.snapshot()),
                &mut || hold(&mut taken_by_git, shadow.snapshot()),
            ],
        )?;
        ten.walked.push_with_raw(ours, least);
        ten.git.push_with_raw(ours, theirs);
        let (taken, taken_by_git) = taken.zip(taken_by_git).ok_or("no snapshot was taken")?;
        if taken.unchanged {
            return Err("ten files changed and the snapshot did not".into());
        }

        shadow.keep(&taken_by_git)?;
        let picked = tree.pick(TEN)?;
        let before = contents(&picked)?;
        let mut times = [0.0; 2];
        for step in 0..2 {
            let which = (round + step) % 2;
            tree.edit(&picked)?;
            times[which] = match which {
                0 => timed(|| keeper.rewind(taken.snapshot.tree))?,
                _ => timed(|| shadow.reset())?,
            };
            if contents(&picked)? != before {
                return Err(format!("{}: files were not put back", ["abide", "git"][which]).into());
            }
        }
        let [ours, theirs] = times;
        ten.restored.push_with_raw(ours, theirs);
        Ok(())
    }

    /// Writes all files into empty directories.
    pub(crate) fn full(&self, bench: &Bench) -> Outcome<Figure> {
        let packed = self.packed.as_ref().ok_or("the shadow repository is not packed")?;
        let mut figure = of(&self.tree.name, "restore.full.git", Target::RatioAtMost(0.45));
        let rounds = if self.is_large() { bench.rounds.min(LARGE_ROUNDS) } else { bench.rounds };
        for round in 0..rounds {
            eprintln!("{}: full restore, round {} of {rounds}", self.tree.name, round + 1);
            let [into, into_by_git, index] =
                ["full", "full-git", "index"].map(|it| self.tree.beside(&format!("{it}-{round}")));
            std::fs::create_dir(&into)?;
            std::fs::create_dir(&into_by_git)?;
            let [ours, theirs] = in_turns(
                round,
                [&mut || self.keeper.write_all(self.taken.snapshot.tree, &into), &mut || {
                    packed.checkout(&into_by_git, &index)
                }],
            )?;
            figure.push_with_raw(ours, theirs);
            let (met, met_by_git) = (walk(&into)?, walk(&into_by_git)?);
            // Empty directories are abide's alone.
            if (met.files, met.bytes) != (met_by_git.files, met_by_git.bytes) {
                figure.note("differs", format!("abide wrote {met:?}, git {met_by_git:?}"));
            }
        }
        figure.note("raw", "git checkout with two workers, from a pack");
        Ok(figure)
    }
}

/// Figures about ten files.
#[derive(Debug)]
pub(crate) struct Ten {
    walked: Figure,
    git: Figure,
    restored: Figure,
    syncs: Vec<f64>,
}

impl Ten {
    pub(crate) fn figures(mut self) -> [Figure; 3] {
        for figure in [&mut self.walked, &mut self.git] {
            figure.note("sync_ms", rounded(median(&self.syncs)));
        }
        self.walked.note("raw", "every directory listed and every name's metadata read");
        self.git.note("raw", "git add -A, git write-tree");
        self.restored.note("raw", "git reset --hard, without a snapshot before");
        [self.walked, self.git, self.restored]
    }
}

/// What one sync of a small file takes now.
pub(crate) fn sync_ms(tree: &Tree, round: usize) -> Outcome<f64> {
    let mut file = RawFile::create(&tree.beside(&format!("raw-{round}")), Growth::Growing)?;
    timed(|| {
        file.append();
        Ok(())
    })
}

fn contents(files: &[PathBuf]) -> Outcome<Vec<Vec<u8>>> {
    Ok(files.iter().map(std::fs::read).collect::<Result<_, _>>()?)
}

fn of(tree: &str, what: &str, target: Target) -> Figure {
    Figure::new(format!("workspace.{tree}.{what}"), "ms", Better::Lower, target)
}

/// Bytes as MB.
pub(crate) fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
