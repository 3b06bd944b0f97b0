//! Finds secrets in bytes that may still grow.
//!
//! A scan goes from keyword to keyword, and judges each by the bytes in a window around it. It waits
//! where the window is not there yet, so that what it finds does not depend on how a text was cut. It never looks
//! across a mark. Its work is bounded by counting the bytes of the windows.

use crate::byte_class::ByteClass;
use crate::keyword_table::{KeywordMatch, KeywordTarget};
use crate::mark::{LONGEST_MARK, MarkReading, first_mark, read_mark};
use crate::pem::{PemReading, read_private_key};
use crate::redactor::ScanRules;
use crate::rule::{Rule, SecretMatch};

/// A scan was given up, because it took more work than its text may cost. The text must not be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a text of {bytes} bytes needs more work to scan for secrets than is allowed")]
pub struct ScanOverrun {
    /// The length of the text.
    pub bytes: u64,
}

/// A secret: where it stands, counted from the beginning of the text, and the rule that found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SecretFinding {
    pub start: usize,
    pub end: usize,
    pub target: FindingRule,
}

/// What found a secret. Earlier ones are the more telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingRule {
    Literal(u32),
    PrivateKey,
    Rule(u16),
}

/// How much work each byte of a text may cost, in bytes of windows, and how much any text may.
pub(crate) const WORK_PER_BYTE: u64 = 8;
pub(crate) const WORK_PER_TEXT: u64 = 256 * 1024;
/// Beyond this, a window ends at white space or a quote: no secret that long has one.
const LONG_WINDOW: usize = 512;
const LONG_WINDOW_HEAD: usize = 160;

/// The bytes that a scan sees: all of a text from `offset` on that have come so far.
#[derive(Clone, Copy)]
pub(crate) struct ScanView<'b> {
    pub bytes: &'b [u8],
    /// Where in the text they begin.
    pub offset: usize,
    /// Whether nothing comes after them.
    pub ended: bool,
}

/// The state of a scan.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// All keywords before this place in the text were judged.
    pub position: usize,
    /// Nothing before this place is looked at: a mark or opaque data ends there.
    floor: usize,
    /// Whether a mark ends at `floor`.
    after_mark: bool,
    /// Whether the text goes on in the data of a data URL.
    in_data: bool,
    /// Where the last match of each rule ended, and its secret, for the rules that matched.
    ends: Vec<(u16, usize, usize)>,
    /// Bytes of windows so far.
    pub work: u64,
    /// Whether a keyword of a rule was met.
    pub met_keyword: bool,
}

impl Scanner {
    /// Looks at nothing before this place any more.
    pub(crate) fn begin_at(&mut self, place: usize) {
        self.position = self.position.max(place);
        if self.floor < place {
            self.floor = place;
            self.after_mark = false;
        }
    }

    /// Goes on as far as the bytes reach, and appends what it finds.
    pub(crate) fn advance(
        &mut self,
        rules: &ScanRules,
        view: ScanView<'_>,
        allowed: u64,
        out: &mut Vec<SecretFinding>,
    ) -> Result<(), ScanOverrun> {
        let bytes = view.bytes;
        loop {
            let mut at = self.position.saturating_sub(view.offset);
            if self.in_data {
                at += bytes
                    .get(at..)
                    .unwrap_or_default()
                    .iter()
                    .take_while(|byte| is_base64(**byte))
                    .count();
                self.position = view.offset + at;
                if at >= bytes.len() && !view.ended {
                    return Ok(());
                }
                self.in_data = false;
                self.floor = self.position;
                self.after_mark = false;
            }
            let Some(found) = rules.table.next_candidate(bytes, at) else {
                let seen = if view.ended { bytes.len() } else { bytes.len().saturating_sub(3) };
                self.position = self.position.max(view.offset + seen);
                return Ok(());
            };
            self.position = view.offset + found;
            let rest = bytes.get(found..).unwrap_or_default();
            let candidates = rules.table.candidates(rest);
            for keyword in candidates.clone().take(if view.ended { 0 } else { usize::MAX }) {
                let waits = match keyword.compare(rest) {
                    KeywordMatch::Not => continue,
                    KeywordMatch::Cut => true,
                    KeywordMatch::Whole => match keyword.target {
                        KeywordTarget::Mark => read_mark(rest) == MarkReading::Unfinished,
                        KeywordTarget::Pem => {
                            read_private_key(rest, view.ended) == PemReading::Unfinished
                        }
                        KeywordTarget::Rule(number) => match rules.rule(number) {
                            Some(rule) if !self.passes_over(number, rule, view, found) => {
                                self.window_of(rule, view, found).is_none()
                            }
                            _ => false,
                        },
                        KeywordTarget::Literal(_) | KeywordTarget::DataUrl => false,
                    },
                };
                if waits {
                    return Ok(());
                }
            }
            self.position += 1;
            for keyword in candidates {
                if keyword.compare(rest) != KeywordMatch::Whole {
                    continue;
                }
                match keyword.target {
                    KeywordTarget::Mark => {
                        if let MarkReading::Mark(length) = read_mark(rest) {
                            self.position = view.offset + found + length;
                            self.floor = self.position;
                            self.after_mark = true;
                        }
                    }
                    KeywordTarget::Pem => {
                        let reading = read_private_key(rest, view.ended);
                        self.work += reading.work();
                        if self.work > allowed {
                            return Err(ScanOverrun { bytes: (view.offset + bytes.len()) as u64 });
                        }
                        if let PemReading::Key { length, .. } = reading {
                            let end =
                                first_mark(bytes, found, found + length).unwrap_or(found + length);
                            self.position = self.position.max(view.offset + end);
                            out.push(SecretFinding {
                                start: view.offset + found,
                                end: view.offset + end,
                                target: FindingRule::PrivateKey,
                            });
                        }
                    }
                    KeywordTarget::DataUrl => {
                        if is_media_head(
                            bytes.get(found.saturating_sub(80)..found).unwrap_or_default(),
                        ) {
                            self.in_data = true;
                            self.position =
                                self.position.max(view.offset + found + keyword.text.len());
                        }
                    }
                    KeywordTarget::Literal(number) => {
                        let start = view.offset + found;
                        if start >= self.floor {
                            out.push(SecretFinding {
                                start,
                                end: start + keyword.text.len(),
                                target: FindingRule::Literal(number),
                            });
                        }
                    }
                    KeywordTarget::Rule(number) => {
                        self.met_keyword = true;
                        if let Some(rule) = rules.rule(number) {
                            self.judge(rules, number, rule, view, found, out);
                            if self.work > allowed {
                                return Err(ScanOverrun {
                                    bytes: (view.offset + bytes.len()) as u64,
                                });
                            }
                        }
                    }
                }
            }
        }
    }

    /// Where the window of a rule around a keyword begins and ends, or nothing if it is not there yet.
    fn window_of(&self, rule: &Rule, view: ScanView<'_>, found: usize) -> Option<(usize, usize)> {
        let limits = &rule.limits;
        let bytes = view.bytes;
        let before = if limits.anchored { 0 } else { limits.before };
        let start = found.saturating_sub(before).max(self.floor.saturating_sub(view.offset));
        let full = found + limits.after;
        let end = if limits.after <= LONG_WINDOW || limits.wide {
            full
        } else {
            let head = found + LONG_WINDOW_HEAD;
            let tail = bytes.get(head..full.min(bytes.len())).unwrap_or_default();
            match tail.iter().position(|byte| BREAKS.has(*byte)) {
                Some(place) => head + place + 1,
                None => full,
            }
        };
        // A mark that begins within the window must be there to its end.
        if !view.ended && end + LONGEST_MARK > bytes.len() {
            return None;
        }
        Some((start, end.min(bytes.len())))
    }

    /// Whether a keyword is of no interest to a rule: it stands in a match, or within a word.
    fn passes_over(&self, number: u16, rule: &Rule, view: ScanView<'_>, found: usize) -> bool {
        let place = view.offset + found;
        let preceding =
            found.checked_sub(1).and_then(|before| view.bytes.get(before)).copied().unwrap_or(b' ');
        place < self.floor
            || rule.limits.at_word && (is_word(preceding) || self.after_mark && place == self.floor)
            || self.ends.iter().any(|(rule, end, _)| *rule == number && place < *end)
    }

    /// Looks closer at a keyword.
    fn judge(
        &mut self,
        rules: &ScanRules,
        number: u16,
        rule: &Rule,
        view: ScanView<'_>,
        found: usize,
        out: &mut Vec<SecretFinding>,
    ) {
        let bytes = view.bytes;
        if self.passes_over(number, rule, view, found) {
            return;
        }
        let Some((start, end)) = self.window_of(rule, view, found) else { return };
        // What the rule has found already would be found again, and hide what comes after it.
        let found_before = self.ends.iter().find(|(rule, ..)| *rule == number);
        let start = found_before
            .map_or(start, |(_, _, secret)| start.max(secret.saturating_sub(view.offset)))
            .min(end);
        let window = bytes.get(start..end).unwrap_or_default();
        // Lists of URLs are common, and passwords in URLs are not.
        let lacks_at = rule.limits.needs_at && memchr::memchr(b'@', window).is_none();
        if lacks_at || !has_run(window, rule.limits.shortest) {
            self.work += 4;
            return;
        }
        self.work += (window.len() + 16) as u64;
        let cut = first_mark(bytes, start, end);
        let touches = self.after_mark && view.offset + start == self.floor || cut.is_some();
        let matched = if touches {
            // A mark counts as a word next to what it touches, and what it touches is no secret. Else a second
            // scan would find what the first took for a part of something longer.
            let inner = bytes.get(start..cut.unwrap_or(end)).unwrap_or_default();
            let mut apart = vec![b'_'];
            if self.after_mark && view.offset + start == self.floor {
                apart.extend_from_slice(inner);
            } else {
                apart = vec![
                    start
                        .checked_sub(1)
                        .and_then(|before| bytes.get(before))
                        .copied()
                        .unwrap_or(b'\n'),
                ];
                apart.extend_from_slice(inner);
            }
            let inner_end = apart.len();
            apart.push(if cut.is_some() { b'_' } else { bytes.get(end).copied().unwrap_or(b'\n') });
            let begins_apart = self.after_mark && view.offset + start == self.floor;
            rule.find(&apart, 1, inner_end).map(|matched| {
                let shift = |place: usize| start + place - 1;
                matched
                    .filter(|matched| {
                        !(cut.is_some() && matched.end == inner_end
                            || begins_apart && matched.start == 1)
                    })
                    .map(|matched| SecretMatch {
                        start: shift(matched.start),
                        end: shift(matched.end),
                        match_end: shift(matched.match_end),
                    })
            })
        } else {
            rule.find(bytes, start, end)
        };
        match matched {
            // Patterns are checked before they get here. One that is broken all the same finds everything.
            Err(_) => self.work = u64::MAX,
            Ok(None) => {}
            Ok(Some(matched)) => {
                let (mut from, mut to) = (matched.start, matched.end);
                while from > 0 && bytes.get(from).is_some_and(|byte| byte & 0xc0 == 0x80) {
                    from -= 1;
                }
                while bytes.get(to).is_some_and(|byte| byte & 0xc0 == 0x80) {
                    to += 1;
                }
                self.ends.retain(|(rule, ..)| *rule != number);
                self.ends.push((number, view.offset + matched.match_end, view.offset + to));
                let secret = bytes.get(from..to).unwrap_or_default();
                if !rules.allowed.contains(secret) {
                    out.push(SecretFinding {
                        start: view.offset + from,
                        end: view.offset + to,
                        target: FindingRule::Rule(number),
                    });
                }
            }
        }
    }
}

/// Whether there is a run of so many bytes without white space and quotes.
fn has_run(bytes: &[u8], shortest: usize) -> bool {
    shortest < 2 || UNBROKEN.run_end(bytes, shortest).is_some()
}

/// Bytes that stand in no token.
static BREAKS: ByteClass = ByteClass::of(&[
    (0, b' '),
    (b'"', b'"'),
    (b'\'', b'\''),
    (b'`', b'`'),
    (b'<', b'<'),
    (b'>', b'>'),
]);
static UNBROKEN: ByteClass = BREAKS.others();

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

/// Whether a data URL of an image or other media begins in these bytes and has its head up to their end.
fn is_media_head(bytes: &[u8]) -> bool {
    let Some(place) = memchr::memmem::rfind(bytes, b"data:") else { return false };
    // What a secret or a mark runs into is no head, whether it stands there still or its mark.
    if place
        .checked_sub(1)
        .and_then(|before| bytes.get(before))
        .is_some_and(|before| is_base64(*before) || *before >= 0x80)
    {
        return false;
    }
    let head = bytes.get(place + 5..).unwrap_or_default();
    let media: [&[u8]; 6] = [
        b"image/",
        b"audio/",
        b"video/",
        b"font/",
        b"application/pdf",
        b"application/octet-stream",
    ];
    media.iter().any(|kind| head.starts_with(kind))
        && head.iter().all(|byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+' | b'-' | b'.' | b';' | b'=')
        })
}
