//! `dependency-cycle`: tasks wait for each other, so that none can ever start.

use std::collections::BTreeMap;

use super::bounded_findings::{BoundedFindings, short};
use super::task_list::CreatedTasks;
use super::{LiveEvent, ValidationRule};
use crate::{
    DependencyType, Fact, Finding, FindingPlace, FindingType, Repair, RepairCommand, Seq,
    SessionState, Severity, TaskId, TaskStatus,
};

/// Maximum number of tasks named in a cycle.
const NAMED: usize = 20;

/// The `dependency-cycle` rule. Ignores obsolete tasks: nothing waits for them.
#[derive(Debug, Default)]
pub(super) struct DependencyCycleRule {
    /// Tasks that depend on themselves. The fold does not keep these.
    own: BTreeMap<TaskId, Seq>,
}

impl ValidationRule for DependencyCycleRule {
    fn event(&mut self, seen: &LiveEvent<'_>) {
        let known = |id: &TaskId| seen.before.tasks.get(id.as_str()).is_some_and(|task| task.known);
        let (id, depends) = match seen.fact {
            Ok(Fact::TaskCreated(fact)) if !known(&fact.task) => (&fact.task, &fact.depends),
            Ok(Fact::TaskChanged(fact)) if known(&fact.task) => match &fact.depends {
                Some(depends) => (&fact.task, depends),
                None => return,
            },
            _ => return,
        };
        if depends.contains(id) {
            self.own.insert(id.clone(), seen.event.seq);
        } else {
            self.own.remove(id);
        }
    }

    fn finish(&mut self, state: &SessionState, findings: &mut Vec<Finding>) {
        let mut few = BoundedFindings::new("dependency-cycle", FindingType::BusinessLogic);
        for (id, seq) in &self.own {
            add_dependency_cycle(&mut few, &[id.as_str()], *seq);
        }
        let graph = DependencyGraph::new(state);
        for cycle in graph.cycles() {
            let names: Vec<&str> = cycle.iter().map(|place| graph.list.id(*place)).collect();
            let first = cycle.first().and_then(|place| graph.list.tasks.get(*place));
            add_dependency_cycle(
                &mut few,
                &names,
                first.map_or(Seq::ZERO, |(_, task)| task.created),
            );
        }
        few.finish(findings);
    }
}

fn add_dependency_cycle(few: &mut BoundedFindings, cycle: &[&str], seq: Seq) {
    let first = short(cycle.first().copied().unwrap_or_default());
    let mut names: Vec<String> = cycle.iter().take(NAMED).map(|id| short(id)).collect();
    if cycle.len() > NAMED {
        names.push(format!("… {} more …", cycle.len() - NAMED));
    }
    names.push(first.clone());
    // The first task no longer waits for the second, which of a single one is itself.
    let task = cycle.first().copied().unwrap_or_default();
    let off = format!("--off={}", cycle.get(1).copied().unwrap_or(task));
    let command = RepairCommand::of_tasks("depend", [off, "--".to_owned(), task.to_owned()]);
    few.add(
        Severity::Error,
        FindingPlace::subject(format!("task {first}")).of_event(seq),
        format!("tasks depend on each other: {}", names.join(" → ")),
        Repair::by_hand("remove one of these dependencies").with_commands([command]),
    );
}

/// The dependencies between tasks, by index.
struct DependencyGraph<'a> {
    list: CreatedTasks<'a>,
    edges: Vec<Vec<usize>>,
}

impl<'a> DependencyGraph<'a> {
    fn new(state: &'a SessionState) -> Self {
        let list = CreatedTasks::new(state);
        let wanted = |place: &usize| {
            list.tasks.get(*place).is_some_and(|(_, task)| task.status != TaskStatus::Obsolete)
        };
        let edges = list.tasks.iter().enumerate().map(|(place, (_, task))| {
            // Nothing waits for a soft dependency.
            let hard = |id: &&TaskId| task.dependency_types.of(id) != DependencyType::Soft;
            let depends = task.depends.iter().filter(|_| wanted(&place)).filter(hard);
            depends.filter_map(|id| list.place(id)).filter(wanted).collect()
        });
        let edges = edges.collect();
        Self { list, edges }
    }

    fn edges(&self, place: usize) -> &[usize] {
        self.edges.get(place).map(Vec::as_slice).unwrap_or_default()
    }

    /// One cycle of each group of tasks that wait for each other.
    fn cycles(&self) -> Vec<Vec<usize>> {
        let group_of = self.groups();
        let group = |place: usize| group_of.get(place).copied();
        let mut done = vec![false; self.edges.len()];
        let mut step_of = vec![0_usize; self.edges.len()];
        let mut cycles = Vec::new();
        for start in 0..self.edges.len() {
            let within = |place: usize| {
                let next = self.edges(place).iter().copied();
                next.into_iter().find(|next| group(*next) == group(start))
            };
            let Some(own) = group(start) else { continue };
            if done.get(own).copied().unwrap_or(true) || within(start).is_none() {
                continue;
            }
            // A task in a group has a successor in that group, so the walk returns to its start.
            let mut path = Vec::new();
            let mut at = Some(start);
            while let Some(place) = at {
                let Some(step) = step_of.get_mut(place) else { break };
                if *step != 0 {
                    cycles.push(path.split_off(*step - 1));
                    break;
                }
                path.push(place);
                *step = path.len();
                at = within(place);
            }
            if let Some(done) = done.get_mut(own) {
                *done = true;
            }
        }
        cycles
    }

    /// Tarjan's strongly connected components without recursion: the group of each task.
    fn groups(&self) -> Vec<usize> {
        const NEW: usize = usize::MAX;
        let count = self.edges.len();
        let (mut number, mut low) = (vec![NEW; count], vec![NEW; count]);
        let mut group = vec![NEW; count];
        let (mut next_number, mut next_group) = (0, 0);
        let mut open: Vec<usize> = Vec::new();
        let get = |of: &[usize], at: usize| of.get(at).copied().unwrap_or(NEW);
        let set = |of: &mut [usize], at: usize, value: usize| {
            if let Some(slot) = of.get_mut(at) {
                *slot = value;
            }
        };
        for start in 0..count {
            if get(&number, start) != NEW {
                continue;
            }
            // The tasks on the current path, each with the number of edges followed.
            let mut way: Vec<(usize, usize)> = vec![(start, 0)];
            while let Some((place, followed)) = way.pop() {
                if followed == 0 {
                    set(&mut number, place, next_number);
                    set(&mut low, place, next_number);
                    next_number += 1;
                    open.push(place);
                } else if let Some(back) = self.edges(place).get(followed - 1) {
                    // On return from a task, or past a known one: whatever that one reaches, this
                    // one reaches.
                    if get(&group, *back) == NEW {
                        let least = get(&low, place).min(get(&low, *back));
                        set(&mut low, place, least);
                    }
                }
                if let Some(to) = self.edges(place).get(followed) {
                    way.push((place, followed + 1));
                    if get(&number, *to) == NEW {
                        way.push((*to, 0));
                    }
                } else if get(&low, place) == get(&number, place) {
                    while let Some(member) = open.pop() {
                        set(&mut group, member, next_group);
                        if member == place {
                            break;
                        }
                    }
                    next_group += 1;
                }
            }
        }
        group
    }
}
