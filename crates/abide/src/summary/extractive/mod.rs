//! A summary without a model: what was said, in its own words.
//!
//! The same context gives the same summary. It has the sections of [`sections::Sections`], whose items are
//! one line each, so that the next summary can read this one and carry it on. It is never longer
//! than it may be; what does not fit is counted.

mod files;
mod gather;
mod sections;
mod sentence;

use self::gather::gather;
use super::line::SummaryLine;
use super::{Summarizer, SummaryError, SummaryRequest};

/// Summarizes by taking sentences and facts out of a conversation: no network, no chance.
///
/// What decides something is told by English words. Other languages lose that section only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extractive;

impl Summarizer for Extractive {
    fn name(&self) -> String {
        "extractive".to_owned()
    }

    fn summarize(&self, request: &SummaryRequest<'_>) -> Result<String, SummaryError> {
        if request.most_tokens == 0 {
            return Err(SummaryError::NoRoom);
        }
        let lines = SummaryLine::conversation(request.context);
        Ok(gather(&lines, request.tasks, request.files).write(request.most_bytes()))
    }
}

#[cfg(test)]
mod tests;
