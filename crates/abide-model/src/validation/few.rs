//! The first findings of a rule; the rest are counted.

use crate::{Finding, FindingType, FoundAt, Repair, Severity};

/// How many findings a rule says in full.
const MOST: usize = 20;
/// The most characters of a recorded name in a message.
const NAME: usize = 80;

/// The findings of one rule, a bounded number of them.
#[derive(Debug)]
pub(super) struct Few {
    rule: &'static str,
    r#type: FindingType,
    first: Vec<Finding>,
    /// How many more, the worst of them, and where the first of them is.
    more: Option<(u64, Severity, FoundAt)>,
}

impl Few {
    pub(super) const fn new(rule: &'static str, r#type: FindingType) -> Self {
        Self { rule, r#type, first: Vec::new(), more: None }
    }

    /// Adds a finding.
    pub(super) fn add(
        &mut self,
        severity: Severity,
        place: FoundAt,
        message: impl Into<String>,
        repair: Repair,
    ) {
        if self.first.len() < MOST {
            let (rule, r#type) = (self.rule, self.r#type);
            self.first.push(Finding::new(rule, r#type, severity, place, message, repair));
            return;
        }
        let (count, worst, _) = self.more.get_or_insert((0, severity, place));
        *count += 1;
        *worst = (*worst).max(severity);
    }

    /// Gives what there is.
    pub(super) fn finish(&mut self, findings: &mut Vec<Finding>) {
        findings.append(&mut self.first);
        if let Some((count, worst, place)) = self.more.take() {
            let message = format!("and {count} more like these");
            let repair = Repair::by_hand("see those before it");
            findings.push(Finding::new(self.rule, self.r#type, worst, place, message, repair));
        }
    }
}

/// A recorded name, short enough for a message.
pub(super) fn short(name: &str) -> String {
    if name.chars().nth(NAME).is_none() {
        return name.to_owned();
    }
    name.chars().take(NAME).chain(['…']).collect()
}

/// A few names with commas.
pub(super) fn joined<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut first: Vec<String> = names.by_ref().take(10).map(short).collect();
    let rest = names.count();
    if rest > 0 {
        first.push(format!("{rest} more"));
    }
    first.join(", ")
}
