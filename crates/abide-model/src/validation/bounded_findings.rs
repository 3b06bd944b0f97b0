//! The first findings of a rule in full; the rest are counted.

use crate::{Finding, FindingPlace, FindingType, Repair, Severity};

/// How many findings of a rule are reported in full.
const MOST: usize = 20;
/// Maximum length of a recorded name in a message, in characters.
const NAME: usize = 80;

/// A bounded number of findings of one rule.
#[derive(Debug)]
pub(super) struct BoundedFindings {
    rule: &'static str,
    r#type: FindingType,
    first: Vec<Finding>,
    /// How many more, the highest severity among them, and the place of the first.
    more: Option<(u64, Severity, FindingPlace)>,
}

impl BoundedFindings {
    pub(super) const fn new(rule: &'static str, r#type: FindingType) -> Self {
        Self { rule, r#type, first: Vec::new(), more: None }
    }

    /// Adds a finding.
    pub(super) fn add(
        &mut self,
        severity: Severity,
        place: FindingPlace,
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

    /// Appends the findings to `findings`.
    pub(super) fn finish(&mut self, findings: &mut Vec<Finding>) {
        findings.append(&mut self.first);
        if let Some((count, worst, place)) = self.more.take() {
            let message = format!("and {count} more like these");
            let repair = Repair::by_hand("see the findings above");
            findings.push(Finding::new(self.rule, self.r#type, worst, place, message, repair));
        }
    }
}

/// A recorded name, shortened for a message.
pub(super) fn short(name: &str) -> String {
    if name.chars().nth(NAME).is_none() {
        return name.to_owned();
    }
    name.chars().take(NAME).chain(['…']).collect()
}

/// A few names, separated by commas.
pub(super) fn joined<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut first: Vec<String> = names.by_ref().take(10).map(short).collect();
    let rest = names.count();
    if rest > 0 {
        first.push(format!("{rest} more"));
    }
    first.join(", ")
}
