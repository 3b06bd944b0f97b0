//! `abide tasks show`: everything about one task.

use std::time::Duration;

use abide::{
    SessionRef, TaskStatus, Timestamp,
    tasks::{DependencyType, DocumentTask, TaskError, TaskHistory, TaskId, TaskNode, TaskTree},
};
use abide_transcript::{escape, format_duration};

use super::format::{FormattedTask, ToldTasks, format_task_progress};
use crate::clock::local_clock;
use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::noun_count::noun_count;
use crate::session_args::{SessionOption, SessionPurpose};

/// Show everything about one task
///
/// Shows its status with the reason, its times, each attempt with its duration and how it ended, what
/// it depends on and what depends on it, its check and what the check said, its documents, details and
/// result.
#[derive(Debug, clap::Args)]
pub(crate) struct TasksShowArgs {
    /// The task
    #[arg(value_name = "ID")]
    task: String,
    #[command(flatten)]
    session: SessionOption,
    /// Print one line of JSON, like those of `abide tasks --json`
    #[arg(long)]
    json: bool,
}

impl TasksShowArgs {
    pub(crate) fn run(self, surroundings: &CommandContext) -> Result<(), CommandError> {
        let opened = surroundings.open_store()?;
        let id = self.session.find(SessionPurpose::Read, &opened, surroundings)?;
        let view = opened.store.view(&SessionRef::Id(id))?;
        let tree = view.tasks()?;
        let Some((task, depth)) = tree.walk(None).find(|(task, _)| task.id.as_str() == self.task)
        else {
            return Err(abide::Error::from(TaskError::Unknown { task: TaskId(self.task) }).into());
        };
        let told = ToldTasks::read(&view)?;
        let ready = tree.ready(None).any(|ready| ready.id == task.id);
        let mut out = CommandOutput::stdout();
        if self.json {
            out.json(&FormattedTask::json(&tree, task, depth, ready, &told))?;
            return out.flush();
        }
        let page = TaskPage { tree: &tree, task, ready, told: &told };
        for line in page.lines() {
            out.line(line)?;
        }
        out.flush()
    }
}

/// What is shown of a task.
struct TaskPage<'a> {
    tree: &'a TaskTree,
    task: &'a TaskNode,
    ready: bool,
    told: &'a ToldTasks,
}

impl TaskPage<'_> {
    /// All of it, escaped.
    fn lines(&self) -> Vec<String> {
        let document = self.told.document(&self.task.id);
        let history = self.told.history(&self.task.id).cloned().unwrap_or_default();
        let title = document.map_or(self.task.title.as_str(), |document| &document.title);
        let mut lines = vec![escape::text(&format!("{} {title}", self.task.id)).into_owned()];
        let fields =
            [self.standing(&history), self.relations(), task_time_fields(&history)].concat();
        let fields =
            fields.into_iter().chain(document.map(task_content_fields).unwrap_or_default());
        for (name, value) in fields {
            lines.push(format!("  {name:<14}{}", escape::text(&value)));
        }
        if let Some(details) = document.and_then(|document| document.details.as_deref()) {
            lines.push("Details".to_owned());
            lines.extend(details.lines().map(|line| format!("  {}", escape::text(line))));
        }
        if !history.tries.is_empty() {
            lines.push("Attempts".to_owned());
            lines.extend(task_attempt_lines(&history));
        }
        if !history.checks.is_empty() {
            lines.push("Checks".to_owned());
            lines.extend(task_check_lines(&history));
        }
        lines
    }

    fn standing(&self, history: &TaskHistory) -> Vec<(&'static str, String)> {
        let mut status = self.task.status.as_str().to_owned();
        if self.ready {
            status.push_str(", ready");
        }
        if let Some(foreign) = &self.task.foreign {
            status.push_str(&format!(", {foreign:?}"));
        }
        if let Some(reason) = &history.reason {
            status.push_str(&format!(": {reason}"));
        }
        let mut fields = vec![("status", status)];
        if !self.tree.is_leaf(self.task.id.as_str()) {
            fields.push(("parts", format_task_progress(&self.tree.progress(Some(&self.task.id)))));
        }
        if self.task.priority != 0 {
            fields.push(("priority", self.task.priority.to_string()));
        }
        fields
    }

    fn relations(&self) -> Vec<(&'static str, String)> {
        let id = &self.task.id;
        let mut fields = Vec::new();
        if let Some(parent) = &self.task.parent {
            let title = self.tree.get(parent.as_str()).map(|parent| parent.title.as_str());
            fields.push(("part of", format!("{parent} {}", title.unwrap_or_default())));
        }
        let word = |need: &TaskId| {
            let kind = self.task.dependency_types.of(need);
            let kind = (kind != DependencyType::Blocks).then(|| format!("{kind}, "));
            let need_node = self.tree.get(need.as_str()).filter(|node| node.known);
            let status = need_node.map_or("unknown", |node| node.status.as_str());
            format!("{need} ({}{status})", kind.unwrap_or_default())
        };
        let depends: Vec<String> = self.task.depends.iter().map(word).collect();
        fields.extend((!depends.is_empty()).then(|| ("depends on", depends.join(", "))));
        if !self.task.is_done() {
            let waits = self.tree.own_waits_for(id.as_str());
            let waits: Vec<&str> = waits.iter().map(|task| task.id.as_str()).collect();
            fields.extend((!waits.is_empty()).then(|| ("waits for", waits.join(", "))));
        }
        let needed = self.tree.walk(None).map(|(task, _)| task);
        let needed = needed.filter(|task| task.depends.contains(id));
        let needed: Vec<&str> = needed.map(|task| task.id.as_str()).collect();
        fields.extend((!needed.is_empty()).then(|| ("needed by", needed.join(", "))));
        if let Some(session) = &self.task.agent_session {
            fields.push(("agent session", session.clone()));
        }
        fields
    }
}

fn task_time_fields(history: &TaskHistory) -> Vec<(&'static str, String)> {
    let at = |name, at: Option<Timestamp>| at.map(|at| (name, local_clock(at)));
    let worked = Duration::from_millis(history.worked_ms);
    let fields = [
        at("created", history.created_at),
        at("started", history.started_at),
        at("ended", history.ended_at),
        (!history.tries.is_empty()).then(|| ("worked", format_duration(worked))),
    ];
    fields.into_iter().flatten().collect()
}

fn task_content_fields(document: &DocumentTask) -> Vec<(&'static str, String)> {
    let name = |name: &String| match document.document_texts.get(name) {
        Some(text) => format!("{name} (stored, {})", noun_count(text.len(), "byte")),
        None => name.clone(),
    };
    let names: Vec<String> = document.documents.iter().map(name).collect();
    let fields = [
        (!names.is_empty()).then(|| ("documents", names.join(", "))),
        document.check.clone().map(|check| ("check", check)),
        document.result.as_ref().map(|result| ("result", result.get().to_owned())),
    ];
    fields.into_iter().flatten().collect()
}

/// The attempts, one line each.
fn task_attempt_lines(history: &TaskHistory) -> impl Iterator<Item = String> {
    history.tries.iter().zip(1..).map(|(one, number)| {
        let took = one.duration_ms.map(|millis| format_duration(Duration::from_millis(millis)));
        let status = match one.status {
            // What ended it is that it is tried again.
            Some(TaskStatus::Retrying) => "failed",
            Some(TaskStatus::Planned) => "interrupted",
            Some(status) => status.as_str(),
            None => "not ended",
        };
        let reason = one.reason.as_deref().map(|reason| format!("  {}", escape::text(reason)));
        format!(
            "  {number:>2}  {}  {:<8}{status}{}",
            local_clock(one.started_at),
            took.unwrap_or_default(),
            reason.unwrap_or_default()
        )
    })
}

/// What the checks said, one line each.
fn task_check_lines(history: &TaskHistory) -> impl Iterator<Item = String> {
    history.checks.iter().map(|check| {
        let how = match (check.ok, check.exit) {
            (true, _) => "passed".to_owned(),
            (false, Some(code)) => format!("exit code {code}"),
            (false, None) => "ended by a signal".to_owned(),
        };
        let command = check.command.as_deref().unwrap_or_default();
        let (at, command) = (local_clock(check.at), escape::text(command));
        format!("  {at}  {how}  {command}  (@{})", check.seq)
    })
}
