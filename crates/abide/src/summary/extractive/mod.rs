//! Summaries without a model, in the words of the conversation.
//!
//! The same context always gives the same summary. It has the sections of [`summary_sections::SummarySections`],
//! with one line per item, so that the next summary can read this one and carry it on. It never
//! exceeds its limit; what does not fit is counted.

mod files;
mod gather;
mod sentence;
mod summary_sections;

use self::gather::gather_summary_sections;
use super::summary_line::SummaryLine;
use super::{Summarizer, SummaryError, SummaryRequest};

/// Summarizes by extracting sentences and facts from a conversation. Deterministic, and needs no
/// network.
///
/// Decisions are recognised by English words. In other languages only that section is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtractiveSummarizer;

impl Summarizer for ExtractiveSummarizer {
    fn name(&self) -> String {
        "extractive".to_owned()
    }

    fn summarize(&self, request: &SummaryRequest<'_>) -> Result<String, SummaryError> {
        if request.most_tokens == 0 {
            return Err(SummaryError::NoRoom);
        }
        let lines = SummaryLine::conversation(request.context);
        Ok(gather_summary_sections(&lines, request.tasks, request.files)
            .write(request.most_bytes()))
    }
}

#[cfg(test)]
mod tests;
