//! `abide erase`: removes payloads, such as secrets, from everywhere they are stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use abide::{
    Seq, SessionId,
    maintenance::{
        CollectError, EraseError, EraseOutcome, ErasePlan, EventPart, FileMatch, FileMatches,
        PayloadEraser, TextMatches,
    },
};
use abide_transcript::escape;
use serde_json::json;

use crate::command_context::CommandContext;
use crate::confirm::{confirm, unconfirmed_json_text};

use crate::command_output::{CommandOutput, status, warning};
use crate::error::CommandError;
use crate::event_line::listed;
use crate::noun_count::noun_count;
use crate::scoped_store::{NameMatch, ScopedStore};

/// Erase recorded data, such as a secret
///
/// The data is removed from the journal, the objects, the index, the state and the transcript. The
/// event keeps its number, time and kind, and the chain stays valid. Exports, copies, backups and
/// freed blocks of the disk are not changed. Erasing a checkpoint deletes the files that no other
/// checkpoint holds. Erasing a rewind keeps the event and deletes its files. `--match` also
/// searches the files of checkpoints, and with `--files` erases the checkpoints that contain the
/// text. In a fork, it also searches the history shared with the other session, and erases there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  abide erase @41 --reason \"a token\"
  abide erase abc123 @41 @43 --dry-run
  abide erase --match hunter2 --all --files")]
pub(crate) struct EraseArgs {
    /// The session, then the events: `abc123 @41 @43` [default: $ABIDE_SESSION, else the latest]
    #[arg(value_name = "[SESSION] @SEQ")]
    what: Vec<String>,
    /// The session, as an option
    #[arg(short, long, value_name = "SESSION", conflicts_with = "all")]
    session: Option<String>,
    /// Erase every event whose data contains this text
    #[arg(long = "match", value_name = "TEXT")]
    text: Option<String>,
    /// Search every session of this project; with `-A`, of all projects in the store
    #[arg(long, requires = "text")]
    all: bool,
    /// Also erase checkpoints whose files contain the text
    #[arg(long, requires = "text")]
    files: bool,
    /// Reason, which is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Only show what would be erased
    #[arg(long)]
    dry_run: bool,
    /// Proceed without asking
    #[arg(short, long)]
    yes: bool,
    /// Print one JSON object for each session: the plan with `--dry-run`, what was done with `--yes`
    #[arg(long)]
    json: bool,
}

/// The name of this command in errors about stores that cannot do it.
const WHAT: &str = "`abide erase`";

/// The events to erase, by the session that holds them in its journal.
type EventsToErase = BTreeMap<SessionId, BTreeSet<Seq>>;

impl EraseArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        if self.json && !self.yes && !self.dry_run {
            return Err(CommandError::Usage(unconfirmed_json_text()));
        }
        let opened = surroundings.open_store()?;
        let eraser = opened.store.eraser(WHAT)?;
        let wait = surroundings.wait;
        let (sessions, seqs) = self.asked(&opened, surroundings)?;
        if !self.dry_run {
            self.tidy(eraser, wait)?;
        }
        let mut wanted = EventsToErase::new();
        let mut structural = EventsToErase::new();
        let mut held = FileMatches::default();
        let parts = self.parts(eraser, &sessions)?;
        match &self.text {
            None => self.name(&sessions, &parts, &seqs, &mut wanted)?,
            Some(text) => {
                structural = self.find(eraser, &parts, text, &mut wanted)?;
                held = eraser.find_files(&parts, text)?;
                held.notes.iter().for_each(warning);
                if self.files {
                    for found in std::mem::take(&mut held.held) {
                        wanted.entry(found.session).or_default().insert(found.seq);
                    }
                }
            }
        }
        let mut plans = Vec::new();
        for (session, seqs) in &wanted {
            let seqs: Vec<Seq> = seqs.iter().copied().collect();
            plans.push(eraser.plan_erasure(*session, &seqs).map_err(erase_failure)?);
        }
        let mut out = CommandOutput::stdout();
        if !self.json || self.dry_run {
            self.show(&plans, &held, &opened, &mut out)?;
        }
        if plans.is_empty() && held.unnamed == 0 {
            return match (held.held.is_empty(), structural.is_empty()) {
                (true, true) => {
                    Err(CommandError::failed("no event and no file contains this text"))
                }
                (true, false) => Err(unerasable_error(&structural)),
                (false, _) => Err(still_in_files_error(&held.held)),
            };
        }
        out.flush()?;
        if self.dry_run {
            return Ok(());
        }
        confirm("Erase these? It cannot be undone.", self.yes, None)?;
        let mut printed = Ok(());
        let mut print = |plan: &ErasePlan, erased: &EraseOutcome| -> Result<(), CommandError> {
            if self.json {
                out.json(&erased_json(plan, erased, &opened.short(plan.session)))?;
            } else {
                out.line(erase_report(plan, erased))?;
            }
            out.flush()?;
            erased.notes.iter().for_each(warning);
            Ok(())
        };
        let each = &mut |plan: &ErasePlan, erased: &EraseOutcome| {
            if printed.is_ok() {
                printed = print(plan, erased);
            }
        };
        let notes = eraser.apply_erasures(&plans, self.reason.as_deref(), wait, each);
        printed?;
        notes.map_err(erase_failure)?.iter().for_each(warning);
        if held.unnamed > 0 {
            let erased = eraser.erase_unnamed(wait).map_err(erase_failure)?;
            // The objects the plans were about may have gone with them.
            let objects = noun_count(erased.objects, "more unreferenced object");
            status(format_args!("Erased {objects}"));
            erased.notes.iter().for_each(warning);
        }
        self.look_again(eraser, &parts)
    }

    /// Finishes an interrupted erasure and deletes its remains.
    fn tidy(&self, eraser: &dyn PayloadEraser, wait: Duration) -> Result<(), CommandError> {
        let tidied = eraser.tidy_erasures(wait).map_err(erase_failure)?;
        if tidied.finished {
            status("Finished an interrupted erasure");
        }
        if tidied.unfinished {
            warning("an interrupted erasure cannot be finished yet; `abide doctor` shows why");
        }
        tidied.notes.iter().for_each(warning);
        let left = tidied.leftovers;
        if left.sessions + left.imports > 0 {
            status(format_args!(
                "Deleted the remains of {} removed sessions and {} imports",
                left.sessions, left.imports
            ));
        }
        left.notes.iter().for_each(warning);
        Ok(())
    }

    /// The requested sessions and events.
    fn asked(
        &self,
        opened: &ScopedStore,
        surroundings: &CommandContext,
    ) -> Result<(Vec<SessionId>, Vec<Seq>), CommandError> {
        let (named, seqs) = self.named()?;
        match &self.text {
            None if seqs.is_empty() => {
                return Err(CommandError::Usage(
                    "name the events (`@41`) or a text (`--match TEXT`)".into(),
                ));
            }
            Some(text) if text.is_empty() || !seqs.is_empty() => {
                return Err(CommandError::Usage(
                    "`--match` needs a text, and takes no events".into(),
                ));
            }
            _ => {}
        }
        if named.or(self.session.as_deref()).or(surroundings.session.as_deref()).is_none() {
            opened.check_one_project(surroundings)?;
        }
        let sessions = match (named.or(self.session.as_deref()), self.all) {
            (Some(_), true) => {
                return Err(CommandError::Usage(
                    "`--all` cannot be combined with a session".into(),
                ));
            }
            (Some(named), false) => vec![opened.find_by(named, NameMatch::Whole)?],
            (None, true) => opened.store.sessions()?.iter().map(|session| session.id).collect(),
            (None, false) => match &surroundings.session {
                Some(named) => vec![opened.find_by(named, NameMatch::Whole)?],
                None => {
                    let latest = opened.latest()?;
                    status(format_args!("Session {} (the latest)", latest.short(SessionId::SHORT)));
                    vec![latest]
                }
            },
        };
        Ok((sessions, seqs))
    }

    /// Where the events of the sessions are. With `--all`, each session covers only its own.
    fn parts(
        &self,
        eraser: &dyn PayloadEraser,
        sessions: &[SessionId],
    ) -> Result<Vec<EventPart>, CommandError> {
        let mut parts = Vec::new();
        for session in sessions {
            let all = eraser.event_parts(*session)?;
            parts.extend(all.into_iter().filter(|part| !self.all || part.session == *session));
        }
        Ok(parts)
    }

    /// The named events, by the session that holds them.
    fn name(
        &self,
        sessions: &[SessionId],
        parts: &[EventPart],
        seqs: &[Seq],
        wanted: &mut EventsToErase,
    ) -> Result<(), CommandError> {
        let Some(session) = sessions.first().copied() else { return Ok(()) };
        for seq in seqs {
            let part = parts.iter().find(|part| part.contains(*seq));
            let Some(part) = part else {
                return Err(erase_failure(EraseError::NoEvent { session, seq: *seq }));
            };
            if part.session != session {
                tell_shared_events(&listed(&[*seq]), part.session);
            }
            wanted.entry(part.session).or_default().insert(*seq);
        }
        Ok(())
    }

    /// The events whose data contains the text. Returns those that cannot be erased.
    fn find(
        &self,
        eraser: &dyn PayloadEraser,
        parts: &[EventPart],
        text: &str,
        wanted: &mut EventsToErase,
    ) -> Result<EventsToErase, CommandError> {
        let own = parts.last().map(|part| part.session);
        let mut fixed = EventsToErase::new();
        for part in parts {
            let TextMatches { heads, structural, payloads } = erase_matches(eraser, part, text)?;
            if !structural.is_empty() {
                warning(format_args!(
                    "session {}: the text is in the data of {}, which cannot be erased",
                    part.session.short(SessionId::SHORT),
                    listed(&structural)
                ));
                fixed.entry(part.session).or_default().extend(structural);
            }
            if !heads.is_empty() {
                warning(format_args!(
                    "session {}: the text is in the task, lane or key of {}, which cannot be erased",
                    part.session.short(SessionId::SHORT),
                    listed(&heads)
                ));
            }
            if !payloads.is_empty() {
                if !self.all && own != Some(part.session) {
                    tell_shared_events(&listed(&payloads), part.session);
                }
                wanted.entry(part.session).or_default().extend(payloads);
            }
        }
        Ok(fixed)
    }

    fn show(
        &self,
        plans: &[ErasePlan],
        held: &FileMatches,
        opened: &ScopedStore,
        out: &mut CommandOutput,
    ) -> Result<(), CommandError> {
        for plan in plans {
            if self.json {
                let mut line = json!(plan);
                if let Some(fields) = line.as_object_mut() {
                    fields.insert("short".to_owned(), opened.short(plan.session).into());
                }
                out.json(&line.to_string())?;
            } else {
                show_erase_plan(plan, out)?;
            }
        }
        if self.json {
            for found in &held.held {
                out.json(&serde_json::to_string(found).unwrap_or_default())?;
            }
            return Ok(());
        }
        if held.unnamed > 0 {
            out.line(format_args!("{} unreferenced objects", held.unnamed))?;
        }
        held.held.iter().map(name_of_text_holder).for_each(warning);
        Ok(())
    }

    /// The session and the events named by the arguments.
    fn named(&self) -> Result<(Option<&str>, Vec<Seq>), CommandError> {
        let mut session = None;
        let mut seqs = Vec::new();
        for (place, word) in self.what.iter().enumerate() {
            match word.strip_prefix('@') {
                Some(seq) => seqs.push(Seq(seq.parse().map_err(|_| {
                    CommandError::Usage(format!("invalid event `{word}` (example: @41)"))
                })?)),
                None if place == 0 => session = Some(word.as_str()),
                None => {
                    return Err(CommandError::Usage(format!(
                        "invalid event `{word}` (example: @41)"
                    )));
                }
            }
        }
        Ok((session, seqs))
    }

    /// Verifies the erasure: it is not reported as done while the text is still stored somewhere.
    fn look_again(
        &self,
        eraser: &dyn PayloadEraser,
        parts: &[EventPart],
    ) -> Result<(), CommandError> {
        let Some(text) = &self.text else { return Ok(()) };
        let mut fixed = EventsToErase::new();
        for part in parts {
            let TextMatches { structural, payloads: left, .. } = erase_matches(eraser, part, text)?;
            if !left.is_empty() {
                warning(format_args!("the text is still in {}", listed(&left)));
            }
            // The reason is recorded and may contain it.
            if !structural.is_empty() {
                fixed.entry(part.session).or_default().extend(structural);
            }
        }
        let left = eraser.find_files(parts, text)?;
        if !left.held.is_empty() {
            return Err(still_in_files_error(&left.held));
        }
        if left.unnamed > 0 {
            return Err(CommandError::failed(format!(
                "the text is still in {} unreferenced objects",
                left.unnamed
            ))
            .with_hint("run the command again; `abide doctor` shows what is damaged"));
        }
        if fixed.is_empty() { Ok(()) } else { Err(unerasable_error(&fixed)) }
    }
}

/// The events of a part that contain a text.
fn erase_matches(
    eraser: &dyn PayloadEraser,
    part: &EventPart,
    text: &str,
) -> Result<TextMatches, CommandError> {
    let mut found = eraser.find_payloads(part.session, text)?;
    for seqs in [&mut found.heads, &mut found.structural, &mut found.payloads] {
        seqs.retain(|seq| part.contains(*seq));
    }
    Ok(found)
}

/// The text is where it cannot be erased.
fn unerasable_error(events: &EventsToErase) -> CommandError {
    let named = events.iter().map(|(session, seqs)| {
        let seqs: Vec<Seq> = seqs.iter().copied().collect();
        format!("{} of session {}", listed(&seqs), session.short(SessionId::SHORT))
    });
    let named: Vec<String> = named.collect();
    CommandError::failed(format!("the text is still in the data of {}", named.join("; ")))
        .with_hint("they determine how the session is read; `abide cleanup` removes whole sessions")
}

/// Says which session holds the events of a fork.
fn tell_shared_events(events: &str, session: SessionId) {
    let session = session.short(SessionId::SHORT);
    status(format_args!("{events}: of session {session}, which this one was forked from"));
}

/// A checkpoint or rewind, and which of its files contain the text.
fn name_of_text_holder(found: &FileMatch) -> String {
    let session = found.session.short(SessionId::SHORT);
    let what = match found.checkpoint {
        Some(number) => format!("checkpoint {number} (@{})", found.seq),
        None => format!("the checkpoint or rewind @{}", found.seq),
    };
    let paths = escape::text(&found.paths.join(", ")).into_owned();
    format!("{what} of session {session} holds the text in {paths}")
}

/// The text is still in files.
fn still_in_files_error(held: &[FileMatch]) -> CommandError {
    let first = held.first().map(name_of_text_holder).unwrap_or_default();
    let more = match held.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    CommandError::failed(format!("the text is still in files: {first}{more}")).with_hint(
        "`--files` erases these checkpoints too; their files can then no longer be \
        restored",
    )
}

fn erase_failure(error: EraseError) -> CommandError {
    match error {
        EraseError::Store(error) => error.into(),
        error => {
            let hint = match &error {
                EraseError::NoEvent { .. } => "`abide show --all` shows the events",
                EraseError::Structural { .. } => "nothing was erased",
                EraseError::Damaged { .. } => {
                    "nothing was erased; `abide doctor` shows what is \
                damaged"
                }
                EraseError::NotBegun(CollectError::Busy) => {
                    "wait until the agents that write have ended, and run the command again"
                }
                EraseError::NotBegun(_) => {
                    "repair the damage with `abide doctor --repair`, then run the command again"
                }
                EraseError::Unnamed(_) => {
                    "repair damage with `abide doctor --repair`, or free space on a full disk; \
                    then run the command again"
                }
                EraseError::Objects(CollectError::Busy) => {
                    "somebody stores objects; the next `abide erase` or `abide cleanup` finishes it"
                }
                EraseError::Objects(_) => {
                    "repair damage with `abide doctor --repair`, or free space on a full disk; the \
                    next `abide erase` finishes it"
                }
                EraseError::Store(_) => "",
            };
            CommandError::because(error).with_hint(hint)
        }
    }
}

fn show_erase_plan(plan: &ErasePlan, out: &mut CommandOutput) -> Result<(), CommandError> {
    for line in &plan.lines {
        let objects = match line.objects.len() {
            0 => String::new(),
            count => format!(", {}", noun_count(count, "object")),
        };
        let files = if line.snapshot.is_some() { ", with its files" } else { "" };
        let erased = if line.erased { ", erased before" } else { "" };
        out.line(format_args!(
            "{} @{} {} {}, {}{objects}{files}{erased}",
            plan.session.short(SessionId::SHORT),
            line.seq,
            line.at,
            line.kind,
            noun_count(line.bytes, "byte")
        ))?;
    }
    for seq in &plan.rewinds {
        let session = plan.session.short(SessionId::SHORT);
        out.line(format_args!("{session} @{seq} session.rewound is kept, its files are deleted"))?;
    }
    Ok(())
}

fn erase_report(plan: &ErasePlan, erased: &EraseOutcome) -> String {
    let mut said = format!(
        "Erased {} and {} of session {}",
        noun_count(erased.payloads, "payload"),
        noun_count(erased.objects, "object"),
        plan.session.short(SessionId::SHORT)
    );
    if !erased.shared.is_empty() {
        let named = erased.named_by.iter().map(|(session, seq)| match *session == plan.session {
            true => format!("@{seq}"),
            false => format!("{} @{seq}", session.short(SessionId::SHORT)),
        });
        let named: Vec<String> = named.collect();
        let (objects, them) = match erased.shared.len() {
            1 => ("1 object is".to_owned(), "it"),
            count => (format!("{count} objects are"), "them"),
        };
        let refer = if named.len() == 1 { "refers" } else { "refer" };
        said.push_str(&format!("; {objects} kept, since {} {refer} to {them}", named.join(", ")));
    }
    if erased.shared_files > 0 {
        let (files, them) = match erased.shared_files {
            1 => ("1 of its files is".to_owned(), "it"),
            count => (format!("{count} of its files are"), "them"),
        };
        said.push_str(&format!("; {files} kept, since other checkpoints hold {them}"));
    }
    said
}

fn erased_json(plan: &ErasePlan, erased: &EraseOutcome, short: &str) -> String {
    json!({
        "session": plan.session,
        "short": short,
        "events": plan.lines.iter().map(|line| line.seq).collect::<Vec<_>>(),
        "payloads": erased.payloads,
        "objects": erased.objects,
        "shared": erased.shared,
        "named_by": erased.named_by.iter()
            .map(|(session, seq)| json!({"session": session, "seq": seq}))
            .collect::<Vec<_>>(),
        "shared_files": erased.shared_files,
        "rewinds": plan.rewinds,
    })
    .to_string()
}
