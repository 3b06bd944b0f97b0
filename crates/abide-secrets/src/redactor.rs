//! Replaces what a scan finds by marks.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::keyword_table::{Keyword, KeywordTable, KeywordTarget};
use crate::literals::Literals;
use crate::mark::{MarkDigits, MarkKey, OPENING};
use crate::pem::BEGINNING;
use crate::rule::Rule;
use crate::rule_set::RuleSet;
use crate::scanner::{
    FindingRule, ScanOverrun, ScanView, Scanner, SecretFinding, WORK_PER_BYTE, WORK_PER_TEXT,
};
use crate::stream_redactor::StreamRedactor;
use crate::tally::RedactionTally;

/// What a scan needs to know: the rules, and where their keywords stand.
pub(crate) struct ScanRules {
    rules: Vec<Rule>,
    labels: Vec<String>,
    pub table: KeywordTable,
    pub allowed: BTreeSet<Vec<u8>>,
    /// How far before a keyword a secret may begin.
    pub lookbehind: usize,
}

impl ScanRules {
    pub(crate) fn rule(&self, number: u16) -> Option<&Rule> {
        self.rules.get(usize::from(number))
    }

    fn id_of(&self, target: FindingRule) -> &str {
        match target {
            FindingRule::Literal(number) => {
                self.labels.get(number as usize).map_or("literal", String::as_str)
            }
            FindingRule::PrivateKey => "private-key",
            FindingRule::Rule(number) => self.rule(number).map_or("rule", |rule| &rule.id),
        }
    }
}

/// Replaces secrets by marks. A copy shares its rules.
#[derive(Clone)]
pub struct Redactor {
    pub(crate) scan_rules: Arc<ScanRules>,
    key: MarkKey,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "Redactor({} rules, {} literals)",
            self.scan_rules.rules.len(),
            self.scan_rules.labels.len()
        )
    }
}

/// A text without the secrets that were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedactedText<'t> {
    text: Cow<'t, str>,
    tally: RedactionTally,
    original_length: usize,
}

impl<'t> RedactedText<'t> {
    pub(crate) fn new(text: Cow<'t, str>, tally: RedactionTally, original_length: usize) -> Self {
        Self { text, tally, original_length }
    }

    /// The text, with marks where secrets were.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text; borrowed if nothing was found.
    #[must_use]
    pub fn into_text(self) -> Cow<'t, str> {
        self.text
    }

    /// What was redacted, by rule.
    #[must_use]
    pub fn tally(&self) -> &RedactionTally {
        &self.tally
    }

    /// Whether the text is as it was.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.tally.is_empty()
    }

    /// The length of the text before, in bytes.
    #[must_use]
    pub fn original_length(&self) -> usize {
        self.original_length
    }
}

impl Redactor {
    /// A redactor by these rules and literals. Patterns are compiled when they are
    /// first needed.
    #[must_use]
    pub fn new(rules: RuleSet, literals: Literals, key: MarkKey) -> Self {
        let RuleSet { rules, mut keywords, allowed, disabled } = rules;
        if !disabled.is_empty() {
            keywords.retain(|keyword| !matches!(keyword.target, KeywordTarget::Rule(number) if disabled.contains(&number)));
        }
        let (labels, literal_keywords) = literals.into_parts();
        keywords.extend(literal_keywords);
        for (text, target) in [
            (OPENING, KeywordTarget::Mark),
            (";base64,", KeywordTarget::DataUrl),
            (BEGINNING, KeywordTarget::Pem),
        ] {
            keywords.push(Keyword { text: Cow::Borrowed(text.as_bytes()), exact: true, target });
        }
        let lookbehind = rules
            .iter()
            .filter(|rule| !rule.limits.anchored)
            .map(|rule| rule.limits.before)
            .max()
            .unwrap_or(0);
        let table = KeywordTable::new(keywords);
        Self { scan_rules: Arc::new(ScanRules { rules, labels, table, allowed, lookbehind }), key }
    }

    /// Redacts a text.
    ///
    /// # Errors
    ///
    /// If the scan takes more work than a text of this length may: the caller must not keep the text,
    /// but [`unscanned_mark`](crate::unscanned_mark) in its place.
    pub fn redact_text<'t>(&self, text: &'t str) -> Result<RedactedText<'t>, ScanOverrun> {
        self.redact_with(text, MarkDigits::Few)
    }

    /// Redacts a text by which things are told apart: its marks have 32 digits, so that two
    /// different keys never become the same.
    ///
    /// # Errors
    ///
    /// As [`Redactor::redact_text`].
    pub fn redact_key<'t>(&self, text: &'t str) -> Result<RedactedText<'t>, ScanOverrun> {
        self.redact_with(text, MarkDigits::Many)
    }

    /// The mark of a key that is secret as a whole.
    #[must_use]
    pub fn mark_of_all(&self, key: &str) -> String {
        let mut mark = String::new();
        self.key.write_mark("key", key.as_bytes(), MarkDigits::Many, &mut mark);
        mark
    }

    fn redact_with<'t>(
        &self,
        text: &'t str,
        digits: MarkDigits,
    ) -> Result<RedactedText<'t>, ScanOverrun> {
        let mut findings = Vec::new();
        self.scan(text.as_bytes(), &mut findings)?;
        let mut tally = RedactionTally::default();
        let text_out = if findings.is_empty() {
            Cow::Borrowed(text)
        } else {
            let mut out = String::with_capacity(text.len());
            self.write_marked(text, &findings, digits, &mut tally, &mut out);
            Cow::Owned(out)
        };
        Ok(RedactedText::new(text_out, tally, text.len()))
    }

    /// A redactor of a text that comes in pieces.
    #[must_use]
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self.clone())
    }

    /// Scans all of a text. The findings are in order and do not overlap. Says whether a keyword was met.
    pub(crate) fn scan(
        &self,
        bytes: &[u8],
        findings: &mut Vec<SecretFinding>,
    ) -> Result<ScanCost, ScanOverrun> {
        self.scan_within(bytes, allowed_work(bytes.len()), findings)
    }

    /// As `scan`, with this bound on its work.
    pub(crate) fn scan_within(
        &self,
        bytes: &[u8],
        allowed: u64,
        findings: &mut Vec<SecretFinding>,
    ) -> Result<ScanCost, ScanOverrun> {
        let mut scanner = Scanner::default();
        let view = ScanView { bytes, offset: 0, ended: true };
        scanner.advance(&self.scan_rules, view, allowed, findings)?;
        merge_findings(findings);
        Ok(ScanCost { work: scanner.work, met_keyword: scanner.met_keyword })
    }

    /// Appends a text with marks in the place of findings, which are in order and do not overlap.
    pub(crate) fn write_redacted(
        &self,
        text: &str,
        findings: &[SecretFinding],
        tally: &mut RedactionTally,
        out: &mut String,
    ) {
        self.write_marked(text, findings, MarkDigits::Few, tally, out);
    }

    fn write_marked(
        &self,
        text: &str,
        findings: &[SecretFinding],
        digits: MarkDigits,
        tally: &mut RedactionTally,
        out: &mut String,
    ) {
        let mut done = 0;
        for finding in findings {
            out.push_str(text.get(done..finding.start).unwrap_or_default());
            let secret = text.get(finding.start..finding.end).unwrap_or_default();
            let rule = self.scan_rules.id_of(finding.target);
            self.key.write_mark(rule, secret.as_bytes(), digits, out);
            tally.add(rule, secret.len());
            done = finding.end;
        }
        out.push_str(text.get(done..).unwrap_or_default());
    }
}

/// What a scan cost, and whether it met a keyword of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanCost {
    pub work: u64,
    pub met_keyword: bool,
}

/// The work that scanning a text of this length may take.
pub(crate) const fn allowed_work(length: usize) -> u64 {
    WORK_PER_TEXT + WORK_PER_BYTE * length as u64
}

/// Joins findings that overlap. The longest names the mark, and of equals the most telling.
pub(crate) fn merge_findings(findings: &mut Vec<SecretFinding>) {
    if findings.len() < 2 {
        return;
    }
    findings.sort_unstable();
    let mut merged: Vec<(SecretFinding, usize)> = Vec::with_capacity(findings.len());
    for finding in findings.drain(..) {
        let length = finding.end - finding.start;
        match merged.last_mut() {
            Some((last, longest)) if finding.start < last.end => {
                last.end = last.end.max(finding.end);
                if length > *longest || length == *longest && finding.target < last.target {
                    last.target = finding.target;
                    *longest = length;
                }
            }
            _ => merged.push((finding, length)),
        }
    }
    findings.extend(merged.into_iter().map(|(finding, _)| finding));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_short_urls_is_kept() {
        let redactor =
            Redactor::new(RuleSet::load().unwrap(), Literals::default(), MarkKey::new([7; 32]));
        let mut text = String::new();
        for host in 0..5_000 {
            text.push_str(&format!("http://10.0.{}.7:8080\n", host % 250));
        }
        assert!(redactor.redact_text(&text).unwrap().is_unchanged());
        let json = format!("{{\"output\":{:?}}}", text);
        assert!(redactor.redact_json(&json).unwrap().is_unchanged());
    }

    /// Lines as those of a certificate, each another.
    fn certificate(number: u64) -> String {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut block = String::from("-----BEGIN CERTIFICATE-----\n");
        for _ in 0..20 {
            for _ in 0..64 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                block.push(char::from(ALPHABET[(state >> 32) as usize % 64]));
            }
            block.push('\n');
        }
        block + "-----END CERTIFICATE-----\n"
    }

    #[test]
    fn a_bundle_of_certificates_is_kept() {
        let redactor =
            Redactor::new(RuleSet::load().unwrap(), Literals::default(), MarkKey::new([7; 32]));
        let half: String = (0..250).map(certificate).collect();
        let bundle = half.repeat(2);
        assert!(redactor.redact_text(&bundle).unwrap().is_unchanged());
        let json = |text: &str| format!("{{\"output\":{text:?}}}");
        assert!(redactor.redact_json(&json(&bundle)).unwrap().is_unchanged());

        // A private key among them is marked, wherever a stream is cut.
        let key = certificate(1).replace("CERTIFICATE", "RSA PRIVATE KEY");
        let mixed = format!("{half}{key}{half}");
        let redacted = redactor.redact_text(&mixed).unwrap();
        assert_eq!(redacted.tally().total(), 1);
        let kept = redacted.text().len() - 2 * half.len();
        assert!(redacted.text()[half.len()..].starts_with("‹redacted:private-key:") && kept < 80);
        let document = json(&mixed);
        let in_json = redactor.redact_json(&document).unwrap();
        assert_eq!(in_json.text(), json(redacted.text()));
        let near = 20;
        let tail = &mixed[half.len() - near..half.len() + key.len() + near];
        let marked = redactor.redact_text(tail).unwrap().into_text();
        for cut in 0..=near + "-----BEGIN RSA PRIVATE KEY-----".len() + 2 {
            let mut stream = redactor.stream();
            let out = stream.push(&tail[..cut]) + &stream.push(&tail[cut..]) + &stream.finish();
            assert_eq!(out, marked, "{cut}");
        }
    }
}
