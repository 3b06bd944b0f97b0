//! A guard against slowness: the instructions of the hottest paths, against those in the repository.
//!
//! Each path is done by this program, started again under valgrind, so and so often and then twice
//! as often: the difference is what it costs, without the start of the program. What is made before
//! is not counted. Clock, randomness and the order of work are fixed, so that the same program gives
//! the same figures to a fraction of a percent, on a busy machine too.
//!
//! The figures are for one version of the compiler and the profile of the tests. They guard what
//! is done, not how it is translated.

mod figures;
mod fixed;
mod paths;
mod valgrind;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use tempfile::TempDir;

use crate::Outcome;
use figures::{Figures, Verdict};
use paths::{PATHS, Way};
use valgrind::Valgrind;

/// Counting, and holding the counts against the figures.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only paths whose name contains one of these
    filter: Vec<String>,
    /// The file of the figures
    #[arg(long, default_value = "crates/abide-bench/instructions.toml")]
    figures: PathBuf,
    /// Make what is counted now the figures
    #[arg(long)]
    write: bool,
    /// Count without holding it against the figures
    #[arg(long, conflicts_with = "write")]
    show: bool,
    /// The `abide` program; the one beside this program, unless said otherwise
    #[arg(long)]
    abide: Option<PathBuf>,
    /// Where files are made; removed afterwards
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// One path, done so and so often, in a process of its own.
#[derive(Debug, Args)]
pub(crate) struct Task {
    name: String,
    dir: PathBuf,
    times: usize,
}

/// Does a path, in the process that is counted.
pub(crate) fn run(task: &Task) -> Outcome {
    match paths::find(&task.name)?.way {
        Way::Within { work, .. } => work(&task.dir, task.times),
        Way::Process { .. } => Err("this is a process".into()),
    }
}

/// Counts, and fails where a path has become slower.
pub(crate) fn check(arguments: &Arguments) -> Outcome {
    let program = std::env::current_exe()?;
    let beside = program.parent().ok_or("this program is nowhere")?;
    let abide = arguments.abide.clone().unwrap_or_else(|| beside.join("abide"));
    if !abide.is_file() {
        return Err(format!("{} is not there", abide.display()).into());
    }
    let built = figures::Built::by(&program)?;
    let figures = Figures::read(&arguments.figures)?;
    if figures.is_none() && !arguments.write && !arguments.show {
        let path = arguments.figures.display();
        return Err(format!("there is no {path}; `scripts/instructions --write` makes it").into());
    }
    let mut figures = figures.unwrap_or_default();
    if arguments.write
        && !arguments.filter.is_empty()
        && let Some(other) = figures.other_than(&built)
    {
        return Err(format!("{other}: write all of them").into());
    }
    if !arguments.write
        && !arguments.show
        && let Some(other) = figures.other_than(&built)
    {
        println!("skipped: {other}");
        return Ok(());
    }
    let base = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = TempDir::with_prefix_in("abide-count-", base)?;
    let valgrind = Valgrind::with(&program, &abide, dir.path())?;
    let counts = count_all(&valgrind, dir.path(), &arguments.filter)?;
    let mut slower = 0;
    for (name, count) in &counts {
        let before = figures.get(name);
        let verdict = Verdict::of(*count, before);
        let shown = if arguments.show { Verdict::Level } else { verdict };
        println!("{}", figures::row(name, *count, before, shown));
        slower += usize::from(verdict == Verdict::Slower || verdict == Verdict::New);
        figures.set(name, *count);
    }
    if arguments.write {
        figures.write(&arguments.figures, &built)?;
        println!("written to {}", arguments.figures.display());
        return Ok(());
    }
    if slower == 0 || arguments.show {
        return Ok(());
    }
    Err(format!(
        "{slower} of {} paths take more than {} % more instructions than {} says; where that must \
         be, `scripts/instructions --write` accepts it, and the commit says why",
        counts.len(),
        figures::MOST,
        arguments.figures.display()
    )
    .into())
}

/// Counts every path that is chosen, one on each processor at a time.
fn count_all(valgrind: &Valgrind, dir: &Path, filter: &[String]) -> Outcome<Vec<(String, u64)>> {
    let chosen: Vec<_> = PATHS
        .iter()
        .filter(|path| filter.is_empty() || filter.iter().any(|part| path.name.contains(part)))
        .collect();
    if chosen.is_empty() {
        return Err(format!("no path is named like {}", filter.join(" or ")).into());
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, u64)>> = Mutex::default();
    let failed: Mutex<Option<String>> = Mutex::default();
    let work = |processor: usize| -> Outcome {
        valgrind::keep_to(processor)?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = chosen.get(index) else { return Ok(()) };
            let count =
                path.count(valgrind, dir).map_err(|error| format!("{}: {error}", path.name))?;
            done.lock().expect("nobody panicked").push((index, count));
        }
    };
    std::thread::scope(|scope| {
        for processor in valgrind::processors()? {
            let (work, failed) = (&work, &failed);
            scope.spawn(move || {
                if let Err(error) = work(processor) {
                    *failed.lock().expect("nobody panicked") = Some(error.to_string());
                }
            });
        }
        Outcome::Ok(())
    })?;
    if let Some(error) = failed.into_inner()? {
        return Err(error.into());
    }
    let mut done = done.into_inner()?;
    done.sort_unstable();
    Ok(done.into_iter().map(|(index, count)| (chosen[index].name.to_owned(), count)).collect())
}
