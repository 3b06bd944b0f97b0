//! The sections of a summary: writes them within a limit, and parses them again.

use std::collections::HashSet;
use std::fmt::Write;

use super::super::{beginning_of_summary, summary_on_one_line};

/// The first line of such a summary, by which the next one recognises it.
const OPENING: &str = "Summary of the conversation so far, taken from it word for word by abide.";

/// Shorter items than this many bytes are not worth keeping.
const LEAST_ITEM: usize = 24;

/// Bytes per line in addition to the text: `- ` and the line break.
const ITEM_COST: usize = 3;

/// The sections, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionHeading {
    /// What the user wants: the first request and later changes to it.
    Goal,
    /// What a foreign summary says.
    Earlier,
    /// What the assistant decided.
    Decisions,
    /// Files touched, newest first.
    Files,
    /// Open tasks.
    Tasks,
    /// What failed.
    Errors,
    /// The last state.
    Last,
}

/// All sections.
pub(super) const HEADINGS: [SectionHeading; 7] = [
    SectionHeading::Goal,
    SectionHeading::Earlier,
    SectionHeading::Decisions,
    SectionHeading::Files,
    SectionHeading::Tasks,
    SectionHeading::Errors,
    SectionHeading::Last,
];

impl SectionHeading {
    const fn title(self) -> &'static str {
        match self {
            Self::Goal => "## Goal",
            Self::Earlier => "## Earlier summary",
            Self::Decisions => "## Decisions",
            Self::Files => "## Files touched",
            Self::Tasks => "## Open tasks",
            Self::Errors => "## Errors",
            Self::Last => "## Last state",
        }
    }

    /// Its guaranteed share of the summary, in percent.
    const fn share(self) -> usize {
        match self {
            Self::Goal => 26,
            Self::Earlier => 14,
            Self::Decisions | Self::Last => 16,
            Self::Files | Self::Tasks => 10,
            Self::Errors => 8,
        }
    }

    /// Maximum number of items, however much room there is.
    const fn most_items(self) -> usize {
        match self {
            Self::Goal | Self::Decisions => 40,
            Self::Earlier => 8,
            Self::Files | Self::Tasks => 60,
            Self::Errors => 20,
            Self::Last => 8,
        }
    }

    /// The indexes of `count` items, most important first.
    fn order(self, count: usize) -> Vec<usize> {
        match self {
            // They are sorted by importance already.
            Self::Files | Self::Tasks => (0..count).collect(),
            // The first request, then the newest.
            Self::Goal => {
                let newest = (1..count).rev();
                (0..count.min(1)).chain(newest).collect()
            }
            Self::Earlier | Self::Decisions | Self::Errors | Self::Last => {
                (0..count).rev().collect()
            }
        }
    }
}

/// One section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SummarySection {
    /// One line each.
    pub(super) items: Vec<String>,
    /// Number of items that were dropped.
    pub(super) left_out: u64,
    /// Every item ever added, including dropped ones.
    seen: HashSet<String>,
}

/// The sections of a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SummarySections {
    all: [SummarySection; HEADINGS.len()],
}

impl SummarySections {
    /// A section.
    pub(super) fn of(&mut self, heading: SectionHeading) -> &mut SummarySection {
        // `Heading` has as many values as there are sections.
        #[expect(clippy::indexing_slicing)]
        &mut self.all[heading as usize]
    }

    /// Adds an item at the end, unless it is a duplicate.
    pub(super) fn add(&mut self, heading: SectionHeading, text: &str, most_bytes: usize) {
        self.add_line(heading, summary_on_one_line(text, most_bytes));
    }

    /// Adds an item that is a single line already. Items beyond what the section can ever hold are
    /// dropped right away, which bounds memory.
    pub(super) fn add_line(&mut self, heading: SectionHeading, item: String) {
        let section = self.of(heading);
        if !item.is_empty() && section.seen.insert(item.clone()) {
            section.items.push(item);
            if section.items.len() >= heading.most_items() * 2 {
                section.keep(heading, usize::MAX);
            }
        }
    }

    /// Parses a summary of this kind; `None` for any other.
    pub(super) fn read(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(OPENING)?;
        let mut sections = Self::default();
        let mut now = None;
        for line in rest.lines() {
            if let Some(heading) = HEADINGS.into_iter().find(|heading| heading.title() == line) {
                now = Some(heading);
            } else if let (Some(heading), Some(item)) = (now, line.strip_prefix("- ")) {
                sections.add(heading, item, usize::MAX);
            } else if let (Some(heading), Some(count)) = (now, parse_section_left_out(line)) {
                let section = sections.of(heading);
                section.left_out = section.left_out.saturating_add(count);
            }
        }
        Some(sections)
    }

    /// Writes the summary in at most `most_bytes` bytes.
    pub(super) fn write(mut self, most_bytes: usize) -> String {
        for heading in HEADINGS {
            let section = self.of(heading);
            section.keep(heading, usize::MAX);
        }
        let room =
            most_bytes.saturating_sub(OPENING.len() + 1 + section_left_out_note(u64::MAX).len());
        // Each section gets its share; what it does not need goes to the others, first ones first.
        let wanted = HEADINGS.map(|heading| self.of(heading).cost(heading));
        let mut given = [0; HEADINGS.len()];
        for ((given, wanted), heading) in given.iter_mut().zip(wanted).zip(HEADINGS) {
            *given = wanted.min(room / 100 * heading.share());
        }
        let mut left = room.saturating_sub(given.iter().sum());
        for (given, wanted) in given.iter_mut().zip(wanted) {
            let more = left.min(wanted - *given);
            *given += more;
            left -= more;
        }
        let mut text = OPENING.to_owned();
        text.push('\n');
        let mut lost = 0_u64;
        for (heading, given) in HEADINGS.into_iter().zip(given) {
            let section = self.of(heading);
            if section.items.is_empty() && section.left_out == 0 {
                continue;
            }
            section.keep(heading, given);
            let written = section.text(heading);
            if written.len() <= given {
                text.push_str(&written);
            } else {
                lost = lost
                    .saturating_add(section.left_out.saturating_add(section.items.len() as u64));
            }
        }
        if lost > 0 {
            text.push_str(&section_left_out_note(lost));
        }
        // If not even one item fits, cut the beginning of the text.
        beginning_of_summary(text.trim_end(), most_bytes).to_owned()
    }
}

impl SummarySection {
    /// Size in bytes with all of its items.
    fn cost(&self, heading: SectionHeading) -> usize {
        if self.items.is_empty() && self.left_out == 0 {
            return 0;
        }
        let items = self.items.iter().map(|item| item.len() + ITEM_COST).sum::<usize>();
        let note = if self.left_out == 0 { 0 } else { section_left_out_note(u64::MAX).len() };
        heading.title().len() + 2 + items + note
    }

    /// Drops the least important items until the others fit into `most_bytes`.
    fn keep(&mut self, heading: SectionHeading, most_bytes: usize) {
        let fits = self.cost(heading) <= most_bytes && self.items.len() <= heading.most_items();
        if fits {
            return;
        }
        let mut room = most_bytes
            .saturating_sub(heading.title().len() + 2 + section_left_out_note(u64::MAX).len());
        let mut kept = vec![false; self.items.len()];
        for at in heading.order(self.items.len()).into_iter().take(heading.most_items()) {
            let (Some(item), Some(kept)) = (self.items.get_mut(at), kept.get_mut(at)) else {
                continue;
            };
            if item.len() + ITEM_COST > room {
                if room < LEAST_ITEM + ITEM_COST {
                    break;
                }
                *item = summary_on_one_line(item, room - ITEM_COST);
            }
            room -= (item.len() + ITEM_COST).min(room);
            *kept = true;
        }
        let gone = kept.iter().filter(|kept| !**kept).count();
        self.left_out = self.left_out.saturating_add(gone as u64);
        let mut kept = kept.into_iter();
        self.items.retain(|_| kept.next().unwrap_or(false));
    }

    /// The section as text.
    fn text(&self, heading: SectionHeading) -> String {
        let mut text = format!("\n{}\n", heading.title());
        for item in &self.items {
            // Writing to a string does not fail.
            let _ = writeln!(text, "- {item}");
        }
        if self.left_out > 0 {
            text += &section_left_out_note(self.left_out);
        }
        text
    }
}

/// Says how many items are left out. No item looks like this: items start with a dash.
fn section_left_out_note(count: u64) -> String {
    format!("({count} more left out)\n")
}

fn parse_section_left_out(line: &str) -> Option<u64> {
    line.strip_prefix('(')?.strip_suffix(" more left out)")?.parse().ok()
}
