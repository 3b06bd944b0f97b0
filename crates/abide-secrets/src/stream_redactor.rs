//! Redacts a text that comes in pieces, wherever they were cut.
//!
//! What it releases is the same as [`Redactor::redact_text`] gives for the whole. It holds the last bytes back:
//! as many as a secret may begin before its keyword, and from a keyword on whose window has not come yet.

use crate::mark::unscanned_mark;
use crate::redactor::{Redactor, allowed_work, merge_findings};
use crate::scanner::{ScanView, Scanner, SecretFinding};
use crate::tally::RedactionTally;

/// Bytes before what is held back that a pattern may look at.
const CONTEXT: usize = 8;

/// Redacts a text that comes in pieces.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    scanner: Scanner,
    /// The bytes of the text from `offset` on.
    kept: Vec<u8>,
    offset: usize,
    /// How much of the text was released.
    released: usize,
    findings: Vec<SecretFinding>,
    tally: RedactionTally,
}

impl StreamRedactor {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            scanner: Scanner::default(),
            kept: Vec::new(),
            offset: 0,
            released: 0,
            findings: Vec::new(),
            tally: RedactionTally::default(),
        }
    }

    /// Takes the next piece, and gives what may be released.
    pub fn push(&mut self, piece: &str) -> String {
        self.kept.extend_from_slice(piece.as_bytes());
        self.advance(false)
    }

    /// Gives what was held back. A text may begin anew after it.
    pub fn finish(&mut self) -> String {
        let out = self.advance(true);
        self.scanner = Scanner::default();
        self.kept.clear();
        (self.offset, self.released) = (0, 0);
        out
    }

    /// How many bytes are held back.
    #[must_use]
    pub fn held_back(&self) -> usize {
        self.offset + self.kept.len() - self.released
    }

    /// What was redacted so far, by rule.
    #[must_use]
    pub fn tally(&self) -> &RedactionTally {
        &self.tally
    }

    fn advance(&mut self, ended: bool) -> String {
        let length = self.offset + self.kept.len();
        let view = ScanView { bytes: &self.kept, offset: self.offset, ended };
        let rules = &self.redactor.scan_rules;
        if self.scanner.advance(rules, view, allowed_work(length), &mut self.findings).is_err() {
            return self.give_up();
        }
        let mut until = if ended {
            length
        } else {
            self.scanner.position.saturating_sub(rules.lookbehind).max(self.released)
        };
        merge_findings(&mut self.findings);
        while until > self.released && self.byte_at(until).is_some_and(|byte| byte & 0xc0 == 0x80) {
            until -= 1;
        }
        if let Some(across) =
            self.findings.iter().find(|finding| finding.start < until && until < finding.end)
        {
            until = across.start;
        }
        let ready = self.findings.partition_point(|finding| finding.end <= until);
        let mut out = String::new();
        let from = self.released.saturating_sub(self.offset);
        let to = until.saturating_sub(self.offset);
        let text =
            String::from_utf8_lossy(self.kept.get(from..to).unwrap_or_default()).into_owned();
        let findings: Vec<SecretFinding> = self
            .findings
            .drain(..ready)
            .map(|finding| SecretFinding {
                start: finding.start - self.released,
                end: finding.end - self.released,
                ..finding
            })
            .collect();
        self.redactor.write_redacted(&text, &findings, &mut self.tally, &mut out);
        self.released = until;
        let drop = until.saturating_sub(self.offset).saturating_sub(CONTEXT + 80);
        self.kept.drain(..drop);
        self.offset += drop;
        out
    }

    fn byte_at(&self, place: usize) -> Option<u8> {
        self.kept.get(place.checked_sub(self.offset)?).copied()
    }

    /// A mark for what is held back. The text begins anew after it.
    fn give_up(&mut self) -> String {
        let bytes = self.held_back();
        self.tally.add("unscanned", bytes);
        self.scanner = Scanner::default();
        self.kept.clear();
        self.findings.clear();
        (self.offset, self.released) = (0, 0);
        unscanned_mark(bytes as u64)
    }
}
