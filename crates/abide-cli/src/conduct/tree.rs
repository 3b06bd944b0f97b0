//! Shows a run as a live tree of its tasks, with events above it.

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abide::{
    Session, TaskStatus, Timestamp,
    event::Usage,
    tasks::{TaskId, TaskNode, TaskTree},
};
use abide_runner::{RunEvent, RunOptions, StopUrgency};
use abide_transcript::{escape, format_duration};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::amount::money_amount;
use super::view::RunView;
use super::wording;
use crate::task_mark::task_mark;

/// The refresh interval.
const EVERY: Duration = Duration::from_millis(200);
/// Lines kept free above the tree for events.
const ABOVE: usize = 4;

/// What is drawn.
struct TreeScene {
    session: Arc<Session>,
    tree: TaskTree,
    /// The tree has changed since it was read.
    stale: bool,
    scope: Option<TaskId>,
    jobs: usize,
    begun: Instant,
    /// When each running task started, and what its agent is doing.
    active: HashMap<TaskId, (Instant, String)>,
    /// The total duration and the number of finished tasks.
    took: (Duration, u32),
    usage: Usage,
    waiting: Option<(Timestamp, String)>,
    stopping: StopUrgency,
}

/// Draws the tree.
pub(super) struct TreeView {
    scene: Arc<Mutex<TreeScene>>,
    lines: MultiProgress,
    end: Option<Sender<()>>,
    drawing: Option<JoinHandle<()>>,
}

impl TreeView {
    pub(super) fn new(session: Arc<Session>, options: &RunOptions) -> Self {
        let tree = session.state().map(|state| TaskTree::of(&state.tasks)).unwrap_or_default();
        let scene = TreeScene {
            session,
            tree,
            stale: false,
            scope: options.scope.clone(),
            jobs: options.jobs.max(1),
            begun: Instant::now(),
            active: HashMap::new(),
            took: (Duration::ZERO, 0),
            usage: Usage::default(),
            waiting: None,
            stopping: StopUrgency::None,
        };
        let scene = Arc::new(Mutex::new(scene));
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let (end, ended) = channel::<()>();
        let (drawn, shown) = (scene.clone(), lines.clone());
        let drawing = std::thread::spawn(move || {
            let mut bars: Vec<ProgressBar> = Vec::new();
            loop {
                let lines = {
                    let mut scene = drawn.lock().unwrap_or_else(PoisonError::into_inner);
                    scene.lines()
                };
                draw_tree_lines(&shown, &mut bars, &lines);
                match ended.recv_timeout(EVERY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            bars.iter().for_each(ProgressBar::finish_and_clear);
            let _ = shown.clear();
        });
        Self { scene, lines, end: Some(end), drawing: Some(drawing) }
    }

    /// Prints a permanent line above the tree.
    fn say(&self, line: &str) {
        let _ = self.lines.println(escape::lines(line));
    }
}

impl Drop for TreeView {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(drawing) = self.drawing.take() {
            let _ = drawing.join();
        }
    }
}

/// Shows each line in a progress bar of its own.
fn draw_tree_lines(lines: &MultiProgress, bars: &mut Vec<ProgressBar>, texts: &[String]) {
    while bars.len() > texts.len() {
        if let Some(bar) = bars.pop() {
            bar.finish_and_clear();
            lines.remove(&bar);
        }
    }
    while bars.len() < texts.len() {
        let bar = lines.add(ProgressBar::new_spinner());
        bar.set_style(
            ProgressStyle::with_template("{wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        bars.push(bar);
    }
    for (bar, text) in bars.iter().zip(texts) {
        bar.set_message(text.clone());
        bar.tick();
    }
}

impl RunView for TreeView {
    fn show(&mut self, event: &RunEvent) {
        let mut scene = self.scene.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = None;
        match event {
            RunEvent::TaskStarted { task, way, .. } => {
                let step = way.map(|way| format!("continues {}", way.told())).unwrap_or_default();
                scene.active.insert(task.clone(), (Instant::now(), step));
                scene.waiting = None;
                scene.stale = true;
            }
            RunEvent::Step { task: Some(task), text } => {
                if let Some((_, step)) = scene.active.get_mut(task) {
                    step.clone_from(text);
                }
            }
            RunEvent::CheckStarted { task, command, .. } => {
                let now = (Instant::now(), String::new());
                scene.active.entry(task.clone()).or_insert(now).1 = format!("checking: {command}");
                scene.stale = true;
            }
            RunEvent::CheckEnded { ok: true, .. } => {}
            RunEvent::Usage { usage, .. } => scene.usage.add(usage),
            RunEvent::TaskEnded { task, title, status, reason, took } => {
                scene.active.remove(task);
                scene.stale = true;
                if *status == TaskStatus::Complete {
                    scene.took.0 += *took;
                    scene.took.1 += 1;
                } else {
                    let reason = reason.as_deref().unwrap_or_default();
                    let word = wording::task_status_wording(*status);
                    line = Some(format!("{task} {word} ({title}): {reason}"));
                }
            }
            RunEvent::Waiting { until, why, .. } => scene.waiting = Some((*until, why.clone())),
            RunEvent::Stopping(urgency) => scene.stopping = *urgency,
            RunEvent::Limit(limit) => {
                line = Some(format!("Warning: {}", wording::limit_wording(limit)))
            }
            RunEvent::Warning(text) => line = Some(format!("Warning: {text}")),
            RunEvent::Message { .. } | RunEvent::Output { .. } | RunEvent::Checkpoint(_) => {}
            event => line = wording::run_event_wording(event),
        }
        drop(scene);
        if let Some(line) = line {
            self.say(&line);
        }
    }
}

/// The height and width of the terminal at stderr.
fn tree_terminal_size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or((24, 80), |size| {
        (usize::from(size.ws_row).max(4), usize::from(size.ws_col).max(20))
    })
}

impl TreeScene {
    /// All lines that fit.
    fn lines(&mut self) -> Vec<String> {
        if std::mem::take(&mut self.stale)
            && let Ok(state) = self.session.state()
        {
            self.tree = TaskTree::of(&state.tasks);
        }
        let (rows, _) = tree_terminal_size();
        let tail = self.status();
        let room = rows.saturating_sub(ABOVE + tail.len()).max(1);
        let mut lines = self.tasks(room);
        lines.extend(tail);
        lines
    }

    /// The part of the tree that matters now.
    fn tasks(&self, room: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut focus = None;
        match &self.scope {
            Some(scope) => {
                if let Some(node) = self.tree.get(scope.as_str()) {
                    self.subtree(node, 0, &mut lines, &mut focus);
                }
            }
            None => {
                for node in self.tree.roots() {
                    self.subtree(node, 0, &mut lines, &mut focus);
                }
            }
        }
        if lines.len() > room {
            let focus = focus.unwrap_or(0);
            let first = focus.saturating_sub(room / 3).min(lines.len() - room);
            lines = lines.split_off(first);
            lines.truncate(room);
        }
        lines
    }

    fn subtree(
        &self,
        node: &TaskNode,
        depth: usize,
        lines: &mut Vec<String>,
        focus: &mut Option<usize>,
    ) {
        let indent = "  ".repeat(depth.min(16));
        let title = escape::text(&node.title);
        let id = escape::text(node.id.as_str());
        if self.tree.is_leaf(node.id.as_str()) {
            let mut line = format!("{indent}{} {id} {title}", task_mark(node.status));
            if let Some((since, step)) = self.active.get(&node.id) {
                focus.get_or_insert(lines.len());
                line.push_str(&format!("  {}", format_duration(since.elapsed())));
                if !step.is_empty() {
                    line.push_str(&format!("  {}", escape::text(step)));
                }
            }
            lines.push(line);
            return;
        }
        let progress = self.tree.progress(Some(&node.id));
        let all = progress.all - progress.obsolete;
        lines.push(format!(
            "{indent}{} {id} {title}  {}/{all}",
            task_mark(node.status),
            progress.complete
        ));
        // Collapse a subtree that is done or that nobody works on.
        let open = self.active.keys().any(|task| self.tree.contains(&node.id, task.as_str()))
            || (self.active.is_empty() && progress.failed > 0);
        if open {
            for child in self.tree.children(node.id.as_str()) {
                self.subtree(child, depth + 1, lines, focus);
            }
        }
    }

    /// The lines below the tree.
    fn status(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let progress = self.tree.progress(self.scope.as_ref());
        let all = progress.all - progress.obsolete;
        let mut words = vec![format!("{} of {all} done", progress.complete)];
        words.extend((progress.failed > 0).then(|| format!("{} failed", progress.failed)));
        words.push(format_duration(self.begun.elapsed()));
        let tokens = self.usage.input_tokens + self.usage.output_tokens;
        words.extend((tokens > 0).then(|| format!("{tokens} tokens")));
        words.extend((self.usage.cost_micros > 0).then(|| money_amount(self.usage.cost_micros)));
        words.extend(self.rest(all - progress.complete).map(|rest| format!("about {rest} left")));
        lines.push(words.join(", "));
        if let Some((until, why)) = &self.waiting {
            let now = self.session.store().now();
            let left = wording::time_left_wording(*until, now);
            lines.push(format!("Waiting {left}: {}", escape::text(why)));
        }
        lines.extend(wording::run_event_wording(&RunEvent::Stopping(self.stopping)));
        lines
    }

    /// An estimate of the remaining time, from the tasks so far.
    fn rest(&self, open: u64) -> Option<String> {
        let (took, count) = self.took;
        if count == 0 || open == 0 {
            return None;
        }
        let mean = took / count;
        let rest = mean.saturating_mul(u32::try_from(open).unwrap_or(u32::MAX));
        Some(format_duration(rest / u32::try_from(self.jobs).unwrap_or(1).max(1)))
    }
}
