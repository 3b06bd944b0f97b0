//! Redacts a text that comes in pieces, wherever they were cut.
//!
//! What it releases is the same as [`Redactor::redact_text`] gives for the whole. It holds the last bytes back:
//! as many as a secret may begin before its keyword, and from a keyword on whose window has not come yet.

use crate::mark::unscanned_mark;
use crate::pem::{BEGINNING, is_begun_key};
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
    /// Bytes of a character whose end has not come yet.
    cut_character: Vec<u8>,
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
            cut_character: Vec::new(),
        }
    }

    /// Takes the next piece, and gives what may be released.
    pub fn push(&mut self, piece: &str) -> String {
        self.kept.extend_from_slice(piece.as_bytes());
        self.advance(false)
    }

    /// Takes the next bytes, which may end within a character.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> String {
        self.cut_character.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.cut_character) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => whole_characters(&self.cut_character),
            Ok(_) => self.cut_character.len(),
        };
        let bytes: Vec<u8> = self.cut_character.drain(..whole).collect();
        self.push(&String::from_utf8_lossy(&bytes))
    }

    /// Gives of what is held back the lines that are whole, unless something in them waits for more,
    /// as a private key does. A secret of which only a later line tells is not found then.
    pub fn release_lines(&mut self) -> String {
        let Some(last) = memchr::memrchr(b'\n', &self.kept) else { return String::new() };
        let (length, cut) = (self.offset + self.kept.len(), self.offset + last + 1);
        // Without a keyword that waits, all but the last bytes were looked at.
        let is_judged = self.scanner.position >= cut || self.scanner.position + 3 >= length;
        let across = |finding: &SecretFinding| finding.start < cut && cut < finding.end;
        if cut <= self.released || !is_judged || self.findings.iter().any(across) {
            return String::new();
        }
        self.scanner.begin_at(cut);
        self.release(cut)
    }

    /// Gives all whole lines that are held back, as if the text ended there, except for a private key
    /// that has begun in them, and what follows it: to be called when more has not come for a while.
    pub fn settle(&mut self) -> String {
        let end = self.unfinished_key().unwrap_or(self.kept.len());
        let lines = self.kept.get(..end).unwrap_or_default();
        let Some(last) = memchr::memrchr(b'\n', lines) else { return String::new() };
        let cut = self.offset + last + 1;
        if cut <= self.released {
            return String::new();
        }
        let bytes = lines.get(..=last).unwrap_or_default();
        let view = ScanView { bytes, offset: self.offset, ended: true };
        let rules = &self.redactor.scan_rules;
        if self.scanner.advance(rules, view, allowed_work(cut), &mut self.findings).is_err() {
            return self.give_up();
        }
        merge_findings(&mut self.findings);
        // A secret whose last line has not ended waits for that.
        let across = self.findings.iter().find(|finding| finding.start < cut && cut < finding.end);
        if let Some(start) = across.map(|finding| finding.start) {
            return self.release(start.max(self.released));
        }
        self.scanner.begin_at(cut);
        self.release(cut)
    }

    /// Where in what is kept a private key begins whose end has not come.
    fn unfinished_key(&self) -> Option<usize> {
        let from = self.scanner.position.saturating_sub(self.offset);
        let unjudged = self.kept.get(from..).unwrap_or_default();
        let is_unfinished =
            |place: &usize| is_begun_key(self.kept.get(*place..).unwrap_or_default());
        let beginnings = memchr::memmem::find_iter(unjudged, BEGINNING);
        beginnings.map(|found| from + found).find(is_unfinished)
    }

    /// Gives what was held back. A text may begin anew after it.
    pub fn finish(&mut self) -> String {
        let cut = std::mem::take(&mut self.cut_character);
        self.kept.extend_from_slice(String::from_utf8_lossy(&cut).as_bytes());
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
        self.release(until)
    }

    /// Gives the text up to a place that is not within a finding.
    fn release(&mut self, until: usize) -> String {
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

/// The number of bytes before a last character that is not complete.
fn whole_characters(bytes: &[u8]) -> usize {
    let begins = |byte: &&u8| **byte & 0xc0 != 0x80;
    let tail = bytes.iter().rev().take(3).take_while(|byte| !begins(byte)).count();
    let Some(at) = bytes.len().checked_sub(tail + 1) else { return bytes.len() };
    let last = bytes.get(at..).unwrap_or_default();
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => at,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Literals, MarkKey, Redactor, RuleSet};

    fn redactor() -> Redactor {
        Redactor::new(RuleSet::load().unwrap(), Literals::default(), MarkKey::new([7; 32]))
    }

    /// Made here, so that no scanner takes this file for a leak.
    fn token() -> String {
        format!("ghp_{}", "R7kQ2mZx9LbT4vWc8NdY1sHf6JgP3aUe5KoX")
    }

    #[test]
    fn bytes_may_be_cut_within_a_character() {
        let text = format!("é😀 {} é😀\n", token());
        let whole = redactor().redact_text(&text).unwrap().into_text().into_owned();
        for cut in 0..text.len() {
            let (left, right) = text.as_bytes().split_at(cut);
            let mut stream = redactor().stream();
            let out = [stream.push_bytes(left), stream.push_bytes(right), stream.finish()].concat();
            assert_eq!(out, whole, "{cut}");
        }
        let mut stream = redactor().stream();
        let out = [stream.push_bytes(b"a\xff\xf0"), stream.push_bytes(b"\x9f"), stream.finish()];
        assert_eq!(out.concat(), "a\u{fffd}\u{fffd}");
    }

    #[test]
    fn whole_lines_are_released_and_no_secret_in_them() {
        let mut stream = redactor().stream();
        let mut out = stream.push("ls -l\ntotal 0\n$ ");
        out += &stream.release_lines();
        assert_eq!(out, "ls -l\ntotal 0\n");
        // A token that a chunk cuts.
        out = stream.push(&format!("export A={}", &token()[..20]));
        out += &stream.release_lines();
        assert!(!out.contains("ghp_"), "{out}");
        out += &stream.push(&format!("{}\nls\n", &token()[20..]));
        out += &stream.release_lines();
        // What stands around a keyword is waited for.
        assert!(!out.contains("ls"), "{out}");
        out += &stream.finish();
        assert!(out.starts_with("$ export A=‹redacted:github"), "{out}");
        assert!(out.ends_with("›\nls\n"), "{out}");
        assert_eq!(stream.tally().total(), 1);
    }

    #[test]
    fn what_stands_around_a_keyword_is_not_waited_for_for_ever() {
        let mut stream = redactor().stream();
        let mut out = stream.push("clone https://example.com/a.git\nok\n$ export A=");
        out += &stream.release_lines();
        out += &stream.settle();
        assert_eq!(out, "clone https://example.com/a.git\nok\n");
        out = stream.push(&format!("{}\nPASSWORD: {}", token(), &token()[..9]));
        out += &stream.settle();
        assert!(out.starts_with("$ export A=‹redacted:github") && out.ends_with("›\n"), "{out}");
        assert_eq!(stream.settle(), "");
        out = stream.push(&format!("{}\n", &token()[9..]));
        out += &stream.settle();
        assert!(out.starts_with("PASSWORD: ‹redacted:github") && out.ends_with("›\n"), "{out}");
        assert_eq!(stream.held_back(), 0);
    }

    #[test]
    fn a_private_key_without_a_line_break_after_it_is_one_mark() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{body}\n{body}\n{body}\n-----END PRIVATE KEY-----"
        );
        for after in ["", "$ ", "$ ls\nb\nmore and more text\n"] {
            for more in ["", "\nand text\n"] {
                let mut stream = redactor().stream();
                let mut out = stream.push(&format!("before\n{key}{after}"));
                out += &stream.release_lines();
                out += &stream.settle();
                out += &stream.settle();
                out += &stream.push(more);
                out += &stream.settle();
                out += &stream.finish();
                assert!(out.starts_with("before\n‹redacted:private-key:"), "{out}");
                assert!(out.ends_with(&format!("›{after}{more}")), "{out}");
                assert!(!out.contains("MIIE"), "{out}");
            }
        }
    }

    #[test]
    fn a_private_key_that_has_begun_is_waited_for() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        let mut stream = redactor().stream();
        let before = "see https://example.com/\n";
        let mut out =
            stream.push(&format!("{before}-----BEGIN PRIVATE KEY-----\n{body}\n{body}\n"));
        out += &stream.settle();
        assert_eq!(out, before);
        out = stream.push(&format!("{body}\n-----END PRIVATE KEY-----\nb\n"));
        out += &stream.settle();
        assert!(out.starts_with("‹redacted:private-key:") && out.ends_with("›\nb\n"), "{out}");
    }

    #[test]
    fn a_header_in_prose_is_not_waited_for() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        let header = "-----BEGIN RSA PRIVATE KEY-----";
        let prose = format!("why does it say {header} ?\nIt is `{header}`\n");
        let mut stream = redactor().stream();
        let mut out = stream.push(&prose);
        out += &stream.settle();
        assert_eq!(out, prose);
        // After it a real one, of the old form.
        out = stream.push(&format!("{header}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F\n"));
        out += &stream.settle();
        out += &stream.push(&format!("\n{body}\n{body}\n"));
        out += &stream.settle();
        assert_eq!(out, "");
        out = stream.push("-----END RSA PRIVATE KEY-----\nb\n");
        out += &stream.settle();
        assert!(out.starts_with("‹redacted:private-key:") && out.ends_with("›\nb\n"), "{out}");
        // What looked like one passes when other words follow, without what is of a key.
        out = stream.push(&format!("{header}\n{body}\n"));
        out += &stream.settle();
        assert_eq!(out, "");
        out = stream.push("and so on. You see\n");
        out += &stream.settle();
        assert!(out.starts_with("‹redacted:private-key:"), "{out}");
        assert!(!out.contains("MII") && out.ends_with(". You see\n"), "{out}");
    }

    #[test]
    fn the_lines_of_a_private_key_wait_for_its_end() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7";
        let lines =
            ["a", "-----BEGIN PRIVATE KEY-----", body, body, "-----END PRIVATE KEY-----", "b"];
        let (mut stream, mut out) = (redactor().stream(), String::new());
        for line in lines {
            out += &stream.push(line);
            out += &stream.push("\n");
            out += &stream.release_lines();
        }
        assert!(out.starts_with("a\n‹redacted:private-key:") && out.ends_with("›\nb\n"), "{out}");
    }
}
