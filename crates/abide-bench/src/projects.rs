//! One store of many projects: what is asked of one of them, and what recording costs there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use abide::{
    HistoryQuery, LocalOptions, LocalStore, Message, NewSession, SessionFields, SessionRef, Store,
    history::Search, maintenance::Upkeep,
};

use crate::Outcome;
use crate::bench::Bench;
use crate::calibration::millis;
use crate::figure::{Better, Figure, Target, median, rounded};
use crate::history::{Hasty, queries, timed};
use crate::projects_table::projects_table;
use crate::record::acknowledged;

/// How many sessions one project has.
const EACH: usize = 200;
/// The projects that are asked about.
const ASKED: usize = 20;

/// What is noted of figures, and shown in the table.
pub(crate) const ALL_PROJECTS: &str = "of all projects";
pub(crate) const AFTER: &str = "after sessions were made";
pub(crate) const AFTER_RAW: &str = "the same, raw";

/// A hundred thousand sessions of five hundred projects, beside stores that hold one project each.
pub(crate) fn measure(bench: &Bench) -> Outcome {
    let projects = bench.scale.of(500).max(4);
    let dir = bench.fresh()?;
    let many = Home { dir: dir.path().join("many") };
    let root = many.store();
    std::fs::create_dir_all(root.parent().ok_or("a store is below a home")?)?;
    // In turns, as a person works: the newest sessions are of all projects.
    fill(bench, &root, projects * EACH, projects)?;
    let alone = dir.path().join("alone");
    fill(bench, &alone, EACH, 1)?;
    let empty = dir.path().join("empty");
    LocalStore::init(&empty, LocalOptions::default())?;

    let shown = HistoryQuery { limit: Some(20), ..HistoryQuery::default() };
    let name = |what: &str| format!("projects.{}.{what}", projects * EACH);
    let mut history = figure(name("history"), Target::AtMost(10.0));
    let mut latest = figure(name("latest"), Target::None);
    let mut latest_in = figure(name("latest_in"), Target::None);
    for _ in 0..bench.rounds {
        for (figure, ask) in [
            (&mut history, &ask_history(&shown) as Ask<'_>),
            (&mut latest, &ask_latest),
            (&mut latest_in, &ask_latest_in),
        ] {
            figure.push_with_raw(ask_each(&root, projects, ask)?, ask_each(&alone, 1, ask)?);
        }
    }
    let everything = HistoryQuery { all_projects: true, ..shown.clone() };
    let all = ask_each(&root, projects, &ask_history(&everything))?;
    history.note(ALL_PROJECTS, rounded(all));
    for mut figure in [history, latest, latest_in] {
        figure.note("raw", "the same of a store that holds the one project alone");
        bench.report(&figure)?;
    }

    search(bench, &root, projects, &alone, &shown)?;
    record(bench, &root, &empty, projects)?;
    commands(bench, dir.path(), &many, projects * EACH)?;
    bench.page().write("projects", &projects_table(bench, projects, EACH)?)
}

/// A person's home directory.
struct Home {
    dir: PathBuf,
}

impl Home {
    /// Where the person's store is.
    fn store(&self) -> PathBuf {
        self.dir.join(".local/share/abide/store")
    }

    /// A command of this person's, in a project.
    fn command(&self, program: &Path, project: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("XDG_") || name.starts_with("ABIDE_") || name.starts_with("GIT_") {
                command.env_remove(&*name);
            }
        }
        command.env("HOME", &self.dir).current_dir(project).stderr(Stdio::null());
        command
    }
}

/// `abide record`, `history`, `status`, and `show` of the latest session in a git project that has no store
/// of its own, from the start of the process: with the large store as the person's, and with one that holds this project alone.
fn commands(bench: &Bench, dir: &Path, many: &Home, sessions: usize) -> Outcome {
    let names = ["record", "history", "status", "show"]
        .map(|what| format!("projects.{sessions}.{what}.start"));
    let [record_name, history_name, status_name, show_name] = &names;
    let project = dir.join("site");
    let empty = Home { dir: dir.join("nobody") };
    let lacking = if !bench.abide.is_file() {
        Some("no abide binary beside this program")
    } else if make_checkout(&empty, &project).is_err() {
        Some("no git")
    } else {
        None
    };
    if let Some(reason) = lacking {
        names.iter().for_each(|name| bench.skip(name, reason));
        return Ok(());
    }
    let record = |home: &Home| -> Outcome<f64> {
        let mut command = home.command(&bench.abide, &project);
        command.arg("record");
        Ok(millis(acknowledged(command)?))
    };
    let asked = |home: &Home, words: &[&str]| -> Outcome<f64> {
        let mut command = home.command(&bench.abide, &project);
        command.args(words);
        timed(command)
    };
    let history = |home: &Home| asked(home, &["history"]);
    // The first one makes the person's store, and finds out what the project is.
    let first = record(&empty)?;
    let first_of_many = record(many)?;
    if !empty.store().join("sessions").is_dir() {
        return Err("what was recorded went to another store: is there one above --dir?".into());
    }
    let mut recorded = figure(record_name.clone(), Target::RatioAtMost(1.25));
    let mut shown = figure(history_name.clone(), Target::RatioAtMost(1.5));
    let mut status = figure(status_name.clone(), Target::AtMost(30.0));
    let mut latest = figure(show_name.clone(), Target::RatioAtMost(1.5));
    let (mut fresh, mut fresh_raw) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let (mut ours, mut raws) = (Vec::new(), Vec::new());
        for _ in 0..ASKED {
            raws.push(record(&empty)?);
            ours.push(record(many)?);
        }
        recorded.push_with_raw(median(&ours), median(&raws));
        // The first has the new sessions to read.
        fresh.push(history(many)?);
        fresh_raw.push(history(&empty)?);
        let (mut ours, mut raws) = (Vec::new(), Vec::new());
        for _ in 0..ASKED {
            raws.push(history(&empty)?);
            ours.push(history(many)?);
        }
        shown.push_with_raw(median(&ours), median(&raws));
        // The states of all projects; and the latest session of this one.
        for (figure, words) in
            [(&mut status, &["status", "--all-projects"][..]), (&mut latest, &["show"])]
        {
            let (mut ours, mut raws) = (Vec::new(), Vec::new());
            for _ in 0..ASKED {
                raws.push(asked(&empty, words)?);
                ours.push(asked(many, words)?);
            }
            figure.push_with_raw(median(&ours), median(&raws));
        }
    }
    recorded.note("raw", "the same with a person's store that holds this project alone");
    recorded.note("the first in the project", rounded(first_of_many));
    recorded.note("the first of all, which makes the store", rounded(first));
    shown.note("raw", "the same with a person's store that holds this project alone");
    shown.note(AFTER, rounded(median(&fresh)));
    shown.note(AFTER_RAW, rounded(median(&fresh_raw)));
    for mut figure in [status, latest] {
        figure.note("raw", "the same with a person's store that holds this project alone");
        bench.report(&figure)?;
    }
    bench.report(&recorded)?;
    bench.report(&shown)
}

/// Makes a git project with a commit and a remote.
fn make_checkout(home: &Home, project: &Path) -> Outcome {
    std::fs::create_dir_all(&home.dir)?;
    std::fs::create_dir_all(project)?;
    std::fs::write(project.join("file"), "what is in it\n")?;
    for arguments in [
        &["init", "--quiet"][..],
        &["remote", "add", "origin", "https://example.org/me/site.git"],
        &["add", "file"],
        &["-c", "user.name=me", "-c", "user.email=me@example.org", "commit", "--quiet", "-m", "a"],
    ] {
        let mut git = home.command(Path::new("git"), project);
        let status = git.args(arguments).stdout(Stdio::null()).status()?;
        if !status.success() {
            return Err(format!("git {arguments:?} ended with {status}").into());
        }
    }
    Ok(())
}

fn figure(name: String, target: Target) -> Figure {
    Figure::new(name, "ms", Better::Lower, target)
}

type Ask<'a> = &'a dyn Fn(&LocalStore, usize) -> Outcome;

fn ask_history(query: &HistoryQuery) -> impl Fn(&LocalStore, usize) -> Outcome {
    let query = query.clone();
    move |store, _| match store.index().history(&query)?.entries.len() {
        20 => Ok(()),
        other => Err(format!("{other} sessions instead of 20").into()),
    }
}

fn ask_latest(store: &LocalStore, _: usize) -> Outcome {
    store.finder().find(&SessionRef::Latest)?;
    Ok(())
}

fn ask_latest_in(store: &LocalStore, project: usize) -> Outcome {
    let here = SessionRef::LatestIn(workspace(project).into());
    store.finder().find(&here)?;
    Ok(())
}

/// How long a question about one project takes, its store opened first, as a command does.
fn ask_each(root: &Path, projects: usize, ask: Ask<'_>) -> Outcome<f64> {
    let mut times = Vec::new();
    for number in 0..ASKED {
        let project = number * projects / ASKED;
        let start = Instant::now();
        ask(&open(root, project)?, project)?;
        times.push(millis(start.elapsed()));
    }
    Ok(median(&times))
}

/// Searches of all sorts, in one project each.
fn search(
    bench: &Bench,
    root: &Path,
    projects: usize,
    alone: &Path,
    shown: &HistoryQuery,
) -> Outcome {
    let (mut times, mut raws) = (Vec::new(), Vec::new());
    for (number, (_, text)) in queries(bench).into_iter().enumerate() {
        let Ok(search) = Search::parse(&text) else { continue };
        let query = HistoryQuery { search: Some(search), ..shown.clone() };
        let timed = |root: &Path, project| -> Outcome<f64> {
            let start = Instant::now();
            open(root, project)?.index().history(&query)?;
            Ok(millis(start.elapsed()))
        };
        times.push(timed(root, number % projects)?);
        raws.push(timed(alone, 0)?);
    }
    let mut sorted = times.clone();
    sorted.sort_by(f64::total_cmp);
    let mut figure =
        figure(format!("projects.{}.search.p50", projects * EACH), Target::AtMost(20.0));
    figure.push_with_raw(median(&times), median(&raws));
    figure.note("p99", rounded(sorted[(sorted.len() - 1) * 99 / 100]));
    figure.note("raw", "the same of a store that holds one project alone");
    bench.report(&figure)
}

/// A store opened, a session made, a message acknowledged: in the large store and in an empty one.
fn record(bench: &Bench, root: &Path, empty: &Path, projects: usize) -> Outcome {
    let name = format!("projects.{}.record", projects * EACH);
    let mut figure = figure(name, Target::RatioAtMost(1.25));
    for _ in 0..bench.rounds {
        let (mut ours, mut raws) = (Vec::new(), Vec::new());
        for _ in 0..ASKED {
            for (root, times) in [(root, &mut ours), (empty, &mut raws)] {
                let start = Instant::now();
                let store = Store::local(open(root, 0)?);
                let session = store.create(NewSession::titled("recorded"))?;
                session.append(Message::user("a message"))?.wait()?;
                times.push(millis(start.elapsed()));
                session.close()?;
            }
        }
        figure.push_with_raw(median(&ours), median(&raws));
    }
    figure.note("raw", "the same in an empty store");
    bench.report(&figure)
}

fn open(root: &Path, project: usize) -> Outcome<LocalStore> {
    let options = LocalOptions { projects: vec![id(project)], ..LocalOptions::default() };
    Ok(LocalStore::open(root, options)?)
}

/// An id as projects have it.
fn id(project: usize) -> String {
    format!("{project:064x}")
}

fn workspace(project: usize) -> String {
    format!("/home/me/work/project-{project}")
}

fn fill(bench: &Bench, root: &Path, sessions: usize, projects: usize) -> Outcome {
    // Only how the sessions came about is hurried; what is measured is not.
    let options = LocalOptions {
        storage: Arc::new(Hasty),
        upkeep: Upkeep::ByHand,
        ..LocalOptions::default()
    };
    let store = Store::over(Arc::new(LocalStore::init(root, options)?));
    for number in 0..sessions {
        let project = number % projects;
        let fields = SessionFields {
            title: Some(format!("Session {number}")),
            project_id: Some(id(project)),
            workspace: Some(workspace(project)),
            ..SessionFields::default()
        };
        let session = store.create(NewSession::from(fields))?;
        let text: String = bench.text().piece(number).chars().take(200).collect();
        session.append(Message::user(text))?.wait()?;
        session.close()?;
    }
    Ok(LocalStore::open(root, LocalOptions::default())?.index().update()?)
}
