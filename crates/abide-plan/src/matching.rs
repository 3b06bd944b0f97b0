//! Finds the task of a session for each task of an edited document.
//!
//! Tasks are the same if their titles from the root are. Siblings with the same title are told
//! apart by an id that is not just their position, then by their content, then by their content
//! without the documents, then by their order. Titles are also the same if they differ only in the
//! digits of marks, which depend on a key, and at last if a mark in one stands for something in the other.

use std::collections::{BTreeMap, HashMap, VecDeque};

use abide_model::TaskId;

use crate::arrange::arranged_id;
use crate::content::TaskContent;
use crate::mark_digits::{has_mark, is_same_but_for_marks, without_mark_digits};
use crate::{DocumentTask, TaskList, TaskListForm};

/// Two task lists to be matched.
pub(crate) struct TaskMatcher<'a> {
    old: MatchingIndex<'a>,
    new: MatchingIndex<'a>,
    /// The format of both, if equal; foreign fields of one format mean nothing in another.
    form: Option<TaskListForm>,
    /// Which old tasks are matched.
    taken: Vec<bool>,
}

/// A task list with an index by id.
struct MatchingIndex<'a> {
    plan: &'a TaskList,
    places: HashMap<&'a TaskId, usize>,
}

impl<'a> MatchingIndex<'a> {
    fn new(plan: &'a TaskList) -> Self {
        let places = plan.tasks.iter().enumerate().map(|(at, task)| (&task.id, at)).collect();
        Self { plan, places }
    }

    fn parent(&self, task: &DocumentTask) -> Option<usize> {
        task.parent.as_ref().and_then(|parent| self.places.get(parent).copied())
    }

    /// The titles of what a task depends on, with the types of these dependencies.
    fn depends(&self, task: &DocumentTask) -> Vec<String> {
        let title = |id: &TaskId| {
            let need = self.plan.tasks.get(*self.places.get(id)?)?;
            Some(format!("{} {}", task.dependency_types.of(id), words_without_digits(&need.title)))
        };
        let mut titles: Vec<_> = task.depends.iter().filter_map(title).collect();
        titles.sort_unstable();
        titles.dedup();
        titles
    }
}

/// The depth of each task. Parents come first.
pub(crate) fn depths(plan: &TaskList) -> Vec<usize> {
    let mut by_id: HashMap<&TaskId, usize> = HashMap::with_capacity(plan.tasks.len());
    let mut depths = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        let depth = task.parent.as_ref().and_then(|id| by_id.get(id)).map_or(0, |depth| depth + 1);
        by_id.insert(&task.id, depth);
        depths.push(depth);
    }
    depths
}

/// The format of both task lists, if it is the same.
pub(crate) fn matching_form(old: &TaskList, new: &TaskList) -> Option<TaskListForm> {
    (old.form == new.form).then_some(new.form)
}

/// The words of a title, separated by single spaces.
fn matching_words(title: &str) -> String {
    title.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of a title without the digits of its marks.
fn words_without_digits(title: &str) -> String {
    matching_words(&without_mark_digits(title))
}

/// Has a title of a task list a mark?
fn has_marked_titles(plan: &TaskList) -> bool {
    plan.tasks.iter().any(|task| has_mark(&task.title))
}

/// The same word for all titles with a mark, and for all without one.
fn whether_marked(title: &str) -> String {
    has_mark(title).to_string()
}

/// Tasks with the same title below the same old task.
type TitleGroup = (Option<usize>, String);

/// A way to compare titles, and the old tasks by them.
struct MatchingRound {
    words: fn(&str) -> String,
    old: HashMap<TitleGroup, Vec<usize>>,
}

impl<'a> TaskMatcher<'a> {
    pub(crate) fn new(old: &'a TaskList, new: &'a TaskList) -> Self {
        let (form, taken) = (matching_form(old, new), vec![false; old.tasks.len()]);
        Self { old: MatchingIndex::new(old), new: MatchingIndex::new(new), form, taken }
    }

    /// For each new task the old one it matches. Old tasks that are `gone` from the document come
    /// last.
    pub(crate) fn find(mut self, gone: impl Fn(&TaskId) -> bool) -> Vec<Option<usize>> {
        let mut rounds = vec![self.round(matching_words, &gone)];
        // Marks of the same key tell more than those of another one.
        let marked = [self.old.plan, self.new.plan].map(has_marked_titles);
        if marked == [true; 2] {
            rounds.push(self.round(words_without_digits, &gone));
        }
        let by_marks = marked.contains(&true).then(|| self.round(whether_marked, &gone));
        let tasks = self.new.plan.tasks.as_slice();
        let mut levels: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, depth) in depths(self.new.plan).into_iter().enumerate() {
            levels.entry(depth).or_default().push(at);
        }
        let wrapper = matching_wrapper(self.old.plan, self.new.plan);
        let numbers = self.numbers();
        let mut matches: Vec<Option<usize>> = vec![None; tasks.len()];
        // From the roots down, so that the parent of a task is matched before it.
        for (depth, level) in levels {
            // What is not matched yet, with its title, below an old task.
            let mut open: Vec<(usize, &str, Option<usize>)> = Vec::with_capacity(level.len());
            for at in level {
                let Some(task) = tasks.get(at) else { continue };
                let below = match self.new.parent(task) {
                    None => match wrapper {
                        Some(WrapperTask::Old(at)) => Some(at),
                        _ => None,
                    },
                    Some(parent) if wrapper == Some(WrapperTask::New(parent)) => None,
                    Some(parent) => match matches.get(parent).copied().flatten() {
                        None => continue,
                        below => below,
                    },
                };
                open.push((at, &task.title, below));
            }
            for round in &rounds {
                let mut groups: BTreeMap<TitleGroup, Vec<usize>> = BTreeMap::new();
                for (at, title, below) in &open {
                    groups.entry((*below, (round.words)(title))).or_default().push(*at);
                }
                for (group, members) in groups {
                    let Some(old) = round.old.get(&group) else { continue };
                    for (at, found) in self.tell_apart(old, &members, depth, &numbers) {
                        if let Some(place) = matches.get_mut(at) {
                            *place = Some(found);
                        }
                    }
                }
                open.retain(|(at, ..)| matches.get(*at).copied().flatten().is_none());
            }
            let Some(by_marks) = &by_marks else { continue };
            for (at, title, below) in open {
                let alike = self.alike_but_for_marks(by_marks, title, below);
                for (at, found) in self.tell_apart(&alike, &[at], depth, &numbers) {
                    if let Some(place) = matches.get_mut(at) {
                        *place = Some(found);
                    }
                }
            }
        }
        matches
    }

    /// The old tasks below this one that are not matched yet and whose titles are this one, if marks
    /// stand for something.
    fn alike_but_for_marks(
        &self,
        by_marks: &MatchingRound,
        title: &str,
        below: Option<usize>,
    ) -> Vec<usize> {
        let words = words_without_digits(title);
        let is_alike = |at: &usize| {
            let is_open = self.taken.get(*at).is_some_and(|taken| !taken);
            let task = self.old.plan.tasks.get(*at).filter(|_| is_open);
            task.is_some_and(|task| {
                is_same_but_for_marks(&words_without_digits(&task.title), &words)
            })
        };
        // One of the two titles has a mark.
        let sorts = [true, false].into_iter().filter(|marked| *marked || has_mark(title));
        let old = sorts.filter_map(|marked| by_marks.old.get(&(below, marked.to_string())));
        old.flatten().copied().filter(is_alike).collect()
    }

    /// The old tasks by their titles. Those that are `gone` come last.
    fn round(&self, words: fn(&str) -> String, gone: &impl Fn(&TaskId) -> bool) -> MatchingRound {
        let mut old: HashMap<TitleGroup, Vec<usize>> = HashMap::new();
        for (at, task) in self.old.plan.tasks.iter().enumerate() {
            let group = (self.old.parent(task), words(&task.title));
            old.entry(group).or_default().push(at);
        }
        let is_gone = |at: &usize| self.old.plan.tasks.get(*at).is_some_and(|task| gone(&task.id));
        for group in old.values_mut().filter(|group| group.len() > 1) {
            group.sort_by_key(is_gone);
        }
        MatchingRound { words, old }
    }

    /// The number of each new task among its siblings.
    fn numbers(&self) -> Vec<usize> {
        let mut counts: HashMap<Option<&TaskId>, usize> = HashMap::new();
        let mut number = |task: &'a DocumentTask| {
            let count = counts.entry(task.parent.as_ref()).or_default();
            *count += 1;
            *count
        };
        self.new.plan.tasks.iter().map(&mut number).collect()
    }

    /// Matches new and old tasks with the same title.
    fn tell_apart(
        &mut self,
        old: &[usize],
        new: &[usize],
        depth: usize,
        numbers: &[usize],
    ) -> Vec<(usize, usize)> {
        let mut pairs = Vec::with_capacity(new.len());
        let mut open: Vec<usize> = new.to_vec();
        if old.len() > 1 || new.len() > 1 {
            // An id that is only a position says nothing, because positions shift.
            let given = |at: usize| {
                let task = self.new.plan.tasks.get(at)?;
                let parent = task.parent.as_ref().map(TaskId::as_str);
                let place =
                    arranged_id(parent, depth, numbers.get(at).copied().unwrap_or_default());
                (task.id.as_str() != place).then(|| task.id.as_str().to_owned())
            };
            let id = |at: usize| Some(self.old.plan.tasks.get(at)?.id.as_str().to_owned());
            matching_pass(&mut self.taken, &mut open, &mut pairs, old, id, given);
            let (before, now) = (&self.old, &self.new);
            let said = |side: &MatchingIndex<'_>, at: usize| {
                let task = side.plan.tasks.get(at)?;
                Some((TaskContent::of(task, self.form, depth), side.depends(task)))
            };
            let whole = (|at| said(before, at), |at| said(now, at));
            matching_pass(&mut self.taken, &mut open, &mut pairs, old, whole.0, whole.1);
            let rest = |side: &MatchingIndex<'_>, at: usize| {
                let (content, depends) = said(side, at)?;
                Some((content.without_documents(), depends))
            };
            let (before, now) = (|at| rest(before, at), |at| rest(now, at));
            matching_pass(&mut self.taken, &mut open, &mut pairs, old, before, now);
        }
        matching_pass(&mut self.taken, &mut open, &mut pairs, old, |_| Some(()), |_| Some(()));
        pairs
    }
}

/// Pairs new tasks that are `open` with old ones that are not taken if their keys are equal, in
/// order.
fn matching_pass<K: std::hash::Hash + Eq>(
    taken: &mut [bool],
    open: &mut Vec<usize>,
    pairs: &mut Vec<(usize, usize)>,
    old: &[usize],
    before: impl Fn(usize) -> Option<K>,
    now: impl Fn(usize) -> Option<K>,
) {
    let mut queues: HashMap<K, VecDeque<usize>> = HashMap::new();
    for at in old.iter().filter(|at| !taken.get(**at).is_none_or(|taken| *taken)) {
        if let Some(key) = before(*at) {
            queues.entry(key).or_default().push_back(*at);
        }
    }
    open.retain(|at| {
        let found = now(*at).and_then(|key| queues.get_mut(&key)?.pop_front());
        let Some(found) = found else { return true };
        if let Some(taken) = taken.get_mut(found) {
            *taken = true;
        }
        pairs.push((*at, found));
        false
    });
}

/// A task whose title is the title of the other document. The only heading of the first level is
/// the title of a document, until there is a second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrapperTask {
    Old(usize),
    New(usize),
}

fn matching_wrapper(old: &TaskList, new: &TaskList) -> Option<WrapperTask> {
    let root = |plan: &TaskList, title: &Option<String>| {
        let title = words_without_digits(title.as_deref()?);
        plan.tasks
            .iter()
            .position(|task| task.parent.is_none() && words_without_digits(&task.title) == title)
    };
    let [before, now] = [old, new].map(|plan| plan.title.as_deref().map(words_without_digits));
    match (root(old, &new.title), root(new, &old.title)) {
        (Some(at), None) if now != before => Some(WrapperTask::Old(at)),
        (None, Some(at)) if now != before => Some(WrapperTask::New(at)),
        _ => None,
    }
}
