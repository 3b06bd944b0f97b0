//! Plans a repair: chooses the strategy that loses least, for display before anything is done.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use abide_model::{
    CallId, CheckpointState, Finding, FindingType, ObjectHash, Seq, SessionId, Severity,
    StoreError, path_text,
};
use serde::Serialize;

use crate::examination::Examination;

/// How to repair a session whose journal has lost events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairStrategy {
    /// Reconstruct what is lost from the transcript and the index.
    Reconstruct,
    /// Keep everything that can be read, before and after the damage; name the rest as lost.
    Partial,
    /// Rewind the session to a checkpoint before the damage.
    Checkpoint,
}

impl RepairStrategy {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reconstruct => "reconstruct",
            Self::Partial => "partial",
            Self::Checkpoint => "checkpoint",
        }
    }
}

impl FromStr for RepairStrategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Reconstruct, Self::Partial, Self::Checkpoint]
            .into_iter()
            .find(|strategy| strategy.as_str() == text)
            .ok_or_else(|| {
                format!("invalid strategy `{text}` (reconstruct, partial or checkpoint)")
            })
    }
}

/// What repair is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepairRequest {
    /// The strategy; by default the one that loses least.
    pub strategy: Option<RepairStrategy>,
    /// The session was named explicitly: its open calls and turns count as over.
    pub named: bool,
    /// The event to rewind to, with [`RepairStrategy::Checkpoint`]; by default the latest checkpoint
    /// before the damage.
    pub from: Option<Seq>,
}

/// A strategy, and what it would cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConsideredStrategy {
    /// The strategy.
    pub strategy: RepairStrategy,
    /// It can be applied.
    pub possible: bool,
    /// Events that stay lost.
    pub lost: u64,
    /// Events that are reconstructed.
    pub reconstructed: u64,
    /// Readable events that leave the session's view.
    pub left_out: u64,
    /// An explanation.
    pub why: String,
}

/// One step of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum RepairAction {
    /// Rewrite a segment.
    RewriteSegment {
        /// Its file.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// Events that are kept.
        kept: u64,
        /// Events that are reconstructed.
        reconstructed: u64,
    },
    /// Move rows of a table that cannot be read to the table `quarantine`.
    SetAside {
        /// Their events: first and last of each range.
        events: Vec<(Seq, Seq)>,
    },
    /// Cut off a torn tail.
    CutTail {
        /// The file.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// The first byte that is cut.
        offset: u64,
    },
    /// Name what is lost.
    NameLost {
        /// Events: first and last of each range.
        events: Vec<(Seq, Seq)>,
        /// Objects.
        objects: Vec<ObjectHash>,
    },
    /// Rewind the session.
    GoBack {
        /// The event to rewind to.
        to: Seq,
        /// The checkpoint's number.
        checkpoint: Option<u64>,
        /// How many events leave the session's view.
        left_out: u64,
    },
    /// Give calls without a result one that says that the outcome is unknown.
    EndCalls {
        /// The calls.
        calls: Vec<CallId>,
    },
    /// Set the status to `interrupted`: its writer died.
    Interrupt,
    /// Rebuild a derived file.
    MakeAnew {
        /// What it is.
        what: &'static str,
        /// Its path.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Correct the permissions of a file or directory.
    SetMode {
        /// Its path.
        #[serde(with = "path_text")]
        path: PathBuf,
        /// The permissions.
        mode: u32,
    },
    /// Move a file to the quarantine.
    Remove {
        /// Its path.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Restore the settings.
    PutSettings {
        /// Where they come from.
        from: String,
    },
    /// Move what a damaged pack still holds to a new one.
    SalvagePack {
        /// The pack.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Finish a rewind that was interrupted.
    FinishRewind,
    /// Finish an interrupted erasure, removal or repair.
    Finish {
        /// Which of these.
        what: &'static str,
    },
}

impl fmt::Display for RepairAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RewriteSegment { path, kept, reconstructed: 0 } => {
                let path = path.display();
                write!(f, "rewrite {path} with its {kept} readable events")
            }
            Self::RewriteSegment { path, kept, reconstructed } => write!(
                f,
                "rewrite {} with its {kept} readable events and {reconstructed} reconstructed ones",
                path.display()
            ),
            Self::SetAside { events } => {
                let rows: Vec<String> = events.iter().map(repair_range_text).collect();
                write!(
                    f,
                    "move what cannot be read to the table `quarantine`: {}",
                    first_few_of_plan(&rows)
                )
            }
            Self::CutTail { path, offset } => {
                write!(f, "cut off the torn write after byte {offset} of {}", path.display())
            }
            Self::NameLost { events, objects } => {
                let mut lost: Vec<String> = events.iter().map(repair_range_text).collect();
                lost.extend(objects.iter().map(|object| format!("object {object}")));
                write!(f, "record as lost: {}", first_few_of_plan(&lost))
            }
            Self::GoBack { to, checkpoint: Some(number), left_out } => write!(
                f,
                "rewind to checkpoint {number}, event @{to}; {left_out} events leave the session's view and stay in the journal"
            ),
            Self::GoBack { to, checkpoint: None, left_out } => write!(
                f,
                "rewind to event @{to}; {left_out} events leave the session's view and stay in the journal"
            ),
            Self::EndCalls { calls } => {
                let calls: Vec<String> = calls.iter().map(|call| call.0.clone()).collect();
                write!(
                    f,
                    "record that the outcome of these calls is unknown: {}",
                    first_few_of_plan(&calls)
                )
            }
            Self::Interrupt => {
                f.write_str("record that the session was interrupted: its writer died")
            }
            Self::MakeAnew { what, path } => {
                write!(f, "rebuild the {what}: {}", path.display())
            }
            Self::SetMode { path, mode } => {
                write!(f, "set the permissions of {} to {mode:o}", path.display())
            }
            Self::Remove { path } => write!(f, "move {} to the quarantine", path.display()),
            Self::PutSettings { from } => write!(f, "restore the settings from {from}"),
            Self::SalvagePack { path } => {
                write!(f, "move the readable objects of {} to a new pack", path.display())
            }
            Self::FinishRewind => f.write_str("finish the interrupted rewind"),
            Self::Finish { what } => write!(f, "finish {what} that was interrupted"),
        }
    }
}

fn repair_range_text((first, last): &(Seq, Seq)) -> String {
    if first == last { format!("event {first}") } else { format!("events {first} to {last}") }
}

/// The first few items of a list, for display.
fn first_few_of_plan(list: &[String]) -> String {
    const FEW: usize = 8;
    let mut text = list.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    if list.len() > FEW {
        text.push_str(&format!(" and {} more", list.len() - FEW));
    }
    text
}

/// What a repair will do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RepairPlan {
    /// The session; `None` for the store's own files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// How lost events are dealt with, if any are lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RepairStrategy>,
    /// All strategies considered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub considered: Vec<ConsideredStrategy>,
    /// The steps, in order.
    pub actions: Vec<RepairAction>,
    /// Findings that it does not fix.
    pub left: Vec<Finding>,
}

/// What lost events can be reconstructed from.
#[derive(Debug, Clone, Copy)]
pub struct ReconstructionSource<'a> {
    /// How many of them it has.
    pub events: u64,
    /// Its name.
    pub name: &'a str,
    /// The words before what is lost, if it has none.
    pub without: &'a str,
}

impl RepairPlan {
    /// Chooses a strategy, and says what each would cost.
    /// `source` has what of the lost events can be reconstructed.
    pub fn choose_strategy(
        &mut self,
        examination: &Examination,
        request: RepairRequest,
        lost: &[(Seq, Seq)],
        source: ReconstructionSource<'_>,
    ) -> Result<(), StoreError> {
        let lost = count_planned_events(lost);
        let have = source.events;
        let errors = examination.findings.iter().filter(|found| is_contradiction(found)).count();
        let back = return_point(examination, request)?;
        let reconstruct = ConsideredStrategy {
            strategy: RepairStrategy::Reconstruct,
            possible: have > 0 || lost == 0,
            lost: lost - have,
            reconstructed: have,
            left_out: 0,
            why: match (have, lost) {
                (_, 0) => "no event is lost; what is damaged is rewritten".to_owned(),
                (have, lost) if have == lost => {
                    format!("the {} has all {lost} lost events", source.name)
                }
                (0, lost) => format!("{} any of the {lost} lost events", source.without),
                (have, lost) => {
                    format!("the {} has {have} of the {lost} lost events", source.name)
                }
            },
        };
        let partial = ConsideredStrategy {
            strategy: RepairStrategy::Partial,
            possible: true,
            lost: lost - have,
            reconstructed: have,
            left_out: 0,
            why: if errors == 0 {
                "what remains is consistent; a person should check it".to_owned()
            } else {
                format!("what remains contradicts itself in {errors} ways")
            },
        };
        let checkpoint = ConsideredStrategy {
            strategy: RepairStrategy::Checkpoint,
            possible: back.is_some(),
            lost,
            reconstructed: 0,
            left_out: back.as_ref().map_or(0, |back| back.left_out),
            why: match &back {
                Some(ReturnPoint { number: Some(number), to, .. }) => {
                    format!("checkpoint {number} at event @{to} is intact")
                }
                Some(ReturnPoint { to, .. }) => format!("event @{to} is whole"),
                None => "there is no checkpoint before the damage".to_owned(),
            },
        };
        let taken = match request.strategy {
            Some(strategy) => strategy,
            None if request.from.is_some() => RepairStrategy::Checkpoint,
            None if reconstruct.possible && reconstruct.lost == 0 => RepairStrategy::Reconstruct,
            None if errors == 0 || !checkpoint.possible => RepairStrategy::Partial,
            None => RepairStrategy::Checkpoint,
        };
        let considered = [reconstruct, partial, checkpoint];
        if let Some(wanted) = considered.iter().find(|one| one.strategy == taken && !one.possible) {
            return Err(StoreError::Damaged {
                place: format!("session {}", examination.session),
                reason: format!("it cannot be repaired with `{}`: {}", taken.as_str(), wanted.why),
            });
        }
        self.strategy = Some(taken);
        self.considered = considered.into();
        Ok(())
    }

    /// Plans the events to append.
    /// `lost` is what the plan leaves lost.
    pub fn plan_events(
        &mut self,
        examination: &Examination,
        request: RepairRequest,
        lost: &[(Seq, Seq)],
    ) -> Result<(), StoreError> {
        let facts = &examination.facts;
        for torn in examination.findings.iter().filter(|found| found.rule == "torn-tail") {
            self.actions.push(RepairAction::CutTail {
                path: torn.place.path.clone().unwrap_or_default(),
                offset: torn.place.offset.unwrap_or_default(),
            });
        }
        let mut events = lost.to_vec();
        events.extend(&facts.unnamed);
        let objects = facts.lost_objects.clone();
        if !events.is_empty() || !objects.is_empty() {
            self.actions.push(RepairAction::NameLost { events, objects });
        }
        if self.strategy == Some(RepairStrategy::Checkpoint)
            && let Some(back) = return_point(examination, request)?
        {
            self.actions.push(RepairAction::GoBack {
                to: back.to,
                checkpoint: back.number,
                left_out: back.left_out,
            });
        } else if !facts.unknown.is_empty() && (request.named && facts.at_rest || facts.is_over()) {
            self.actions.push(RepairAction::EndCalls { calls: facts.unknown.clone() });
        }
        if examination.findings.iter().any(|found| found.rule == "interrupted-session") {
            self.actions.push(RepairAction::Interrupt);
        }
        if examination.findings.iter().any(|found| found.rule == "unfinished-rewind") {
            self.actions.push(RepairAction::FinishRewind);
        }
        Ok(())
    }

    /// Keeps the findings that the plan does not fix.
    pub fn keep_left(&mut self, examination: &Examination) {
        let left = examination.findings.iter().filter(|found| !plan_mends(found, self));
        self.left = left.cloned().collect();
    }
}

/// An event to rewind to.
#[derive(Debug, Clone, Copy)]
struct ReturnPoint {
    to: Seq,
    number: Option<u64>,
    left_out: u64,
}

/// Where the session can be rewound to: the event asked for, or the latest checkpoint before
/// anything is lost.
fn return_point(
    examination: &Examination,
    request: RepairRequest,
) -> Result<Option<ReturnPoint>, StoreError> {
    let Some(state) = &examination.facts.state else { return Ok(None) };
    let facts = &examination.facts;
    // What an interrupted repair has named is damage, too.
    let first_lost = facts.lost.iter().chain(&facts.unreadable).map(|(first, _)| *first).min();
    let whole = |seq: Seq| first_lost.is_none_or(|lost| seq < lost);
    let left_out = |to: Seq| {
        state
            .core
            .seq
            .0
            .saturating_sub(to.0)
            .saturating_sub(count_planned_events(&examination.facts.lost))
    };
    if let Some(to) = request.from {
        if !whole(to) || to >= state.core.seq {
            return Err(StoreError::Damaged {
                place: format!("event @{to} of session {}", examination.session),
                reason: "it is not before the damage".to_owned(),
            });
        }
        let number = checkpoint_at(state.checkpoints.iter(), to);
        return Ok(Some(ReturnPoint { to, number, left_out: left_out(to) }));
    }
    let latest = state.checkpoints.iter().filter(|(_, made)| whole(made.seq));
    let latest = latest.max_by_key(|(_, made)| made.seq);
    Ok(latest.map(|(number, made)| ReturnPoint {
        to: made.seq,
        number: number.parse().ok(),
        left_out: left_out(made.seq),
    }))
}

fn checkpoint_at<'a>(
    mut checkpoints: impl Iterator<Item = (&'a str, &'a CheckpointState)>,
    seq: Seq,
) -> Option<u64> {
    checkpoints.find(|(_, made)| made.seq == seq).and_then(|(number, _)| number.parse().ok())
}

/// How many events are in these ranges.
fn count_planned_events(ranges: &[(Seq, Seq)]) -> u64 {
    ranges.iter().map(|(first, last)| last.0.saturating_sub(first.0) + 1).sum()
}

/// Whether it reports a contradiction in what is recorded that a repair does not fix.
#[must_use]
pub fn is_contradiction(found: &Finding) -> bool {
    found.severity >= Severity::Error
        && matches!(found.r#type, FindingType::BusinessLogic | FindingType::Referential)
        && !["message-order", "missing-object", "missing-parent"].contains(&&*found.rule)
}

/// Whether the plan fixes this. A rewind fixes contradictions after the event it goes back to.
fn plan_mends(found: &Finding, plan: &RepairPlan) -> bool {
    let back = plan.actions.iter().any(|action| matches!(action, RepairAction::GoBack { .. }));
    let ends = plan.actions.iter().any(|action| matches!(action, RepairAction::EndCalls { .. }));
    match &*found.rule {
        "open-call" | "message-order" => found.repair.automatic && (ends || back),
        _ => found.repair.automatic || (back && is_contradiction(found)),
    }
}
