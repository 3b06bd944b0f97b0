//! A text that an agent sends again and again while it becomes longer.
//!
//! Each update is an event by itself. What may be the beginning of a secret stays out of it until more comes,
//! or nothing more. Some agents send pieces, although the protocol has none: a text that may go on from the one
//! before is looked at together with it.

use abide::event::ObjectHash;
use abide::secrets::Redactor;

use super::redacted_text::{PADDING, TextProbe, char_before, redacted};
use super::streamed_text::{CONTEXT, HELD, MARK, TextForms, key_context};

/// A text so far.
#[derive(Debug, Default)]
pub(super) struct ReplacedText {
    /// The length and the hash of the last text as it came.
    last: Option<(usize, ObjectHash)>,
    /// How much of the last text waits for nothing.
    settled: usize,
    /// The end of the texts before, if the last one goes on from them.
    base: String,
    /// Texts before the last one that were not recorded whole.
    earlier: Vec<String>,
    /// The last one, if it was not recorded whole.
    own: Option<String>,
    /// The last one was followed by nothing at all, which says that it is over, or that more comes.
    is_cleared: bool,
    /// The end of what came, and where in it begins what was held back.
    tail: String,
    held_from: usize,
}

impl ReplacedText {
    /// Whether something of it was not recorded.
    pub(super) fn is_held(&self) -> bool {
        self.own.is_some() || !self.earlier.is_empty()
    }

    /// The bytes of the texts that were not recorded whole.
    pub(super) fn size(&self) -> usize {
        self.earlier.iter().chain(&self.own).map(String::len).sum()
    }

    /// Gives the texts that were not recorded whole. They are recorded now.
    pub(super) fn release(&mut self) -> Vec<String> {
        let mut left = std::mem::take(&mut self.earlier);
        left.extend(self.own.take());
        self.held_from = self.tail.len();
        left
    }

    /// The same if the last text is recorded whole.
    pub(super) fn release_earlier(&mut self) -> Vec<String> {
        if !self.is_cleared {
            self.own = None;
        }
        self.release()
    }

    /// Takes the next text.
    pub(super) fn take(&mut self, probe: &TextProbe, key: &str, text: &str) -> TextForms {
        self.is_cleared = text.is_empty();
        if self.is_cleared {
            return TextForms::default();
        }
        let is_longer = self.last.is_some_and(|(length, hash)| {
            text.get(..length).is_some_and(|start| ObjectHash::of(start.as_bytes()) == hash)
        });
        self.last = Some((text.len(), ObjectHash::of(text.as_bytes())));
        let own = self.own.take();
        if !is_longer {
            self.begin_anew(probe, own, text);
        }
        if !self.base.is_empty() {
            if let Some(forms) = self.join(probe, text) {
                return forms;
            }
            self.base.clear();
        }
        let left = std::mem::take(&mut self.earlier);
        TextForms { left, ..self.show(probe, key, text) }
    }

    /// The text is another one, or it goes on from the one before.
    fn begin_anew(&mut self, probe: &TextProbe, own: Option<String>, text: &str) {
        self.settled = 0;
        let tail = std::mem::take(&mut self.tail);
        let is_held = own.is_some() || !self.earlier.is_empty();
        let held = tail.get(self.held_from..).unwrap_or_default();
        if self.earlier.is_empty()
            && own.is_some()
            && is_said_again(held, text)
            && !has_secret_across(probe.redactor(), &tail, start_of(text))
        {
            // By itself it would tell the beginning of a secret that is there now.
            self.base.clear();
            return;
        }
        self.earlier.extend(own);
        // Where nothing waits, only a word may go on.
        let may_go_on = tail.len() <= HELD && (is_held || is_one_word(&tail, text));
        self.base = if may_go_on { tail } else { String::new() };
    }

    /// The text together with what stands before it; nothing if it is a text of its own.
    fn join(&mut self, probe: &TextProbe, text: &str) -> Option<TextForms> {
        self.settled = 0;
        let start = start_of(text);
        if has_secret_across(probe.redactor(), &self.base, start) {
            // What was held back of the texts before is in it.
            self.earlier.clear();
            let whole = format!("{}{text}", self.base);
            let (shown, length) = probe.settled_start(&whole, probe.probe(&whole));
            let shown = shown.into_owned();
            self.own = (length < whole.len()).then(|| whole.clone());
            self.keep_tail(&whole, length);
            return Some(TextForms { left: Vec::new(), shown, whole });
        }
        let joined = format!("{}{start}", self.base);
        let waits = start.len() == text.len()
            && joined.len() <= HELD
            && is_one_word(&self.base, text)
            && probe.probe(&joined).settled < self.base.len();
        if !waits {
            return None;
        }
        // There may be one in it with what follows.
        self.own = Some(text.to_owned());
        self.held_from = 0;
        self.tail = joined;
        Some(TextForms { left: Vec::new(), shown: String::new(), whole: text.to_owned() })
    }

    /// A text of its own. Of one that has become longer, only the end is looked at.
    fn show(&mut self, probe: &TextProbe, key: &str, text: &str) -> TextForms {
        let from = char_before(text, self.settled.saturating_sub(PADDING));
        let before = if from == 0 { key_context(key) } else { String::new() };
        let (done, end) = text.split_at(from);
        let window = format!("{before}{end}");
        let probed = probe.probe(&window);
        let (shown, settled) = if probed.is_plain && probed.settled == window.len() {
            (text.to_owned(), text.len())
        } else {
            let (start, length) = probe.settled_start(&window, probed);
            match start.strip_prefix(&*before) {
                Some(start) => {
                    (format!("{done}{start}"), from + length.saturating_sub(before.len()))
                }
                None => (done.to_owned(), from),
            }
        };
        self.settled = settled;
        self.own = (settled < text.len()).then(|| text.to_owned());
        self.keep_tail(text, settled);
        TextForms { left: Vec::new(), shown, whole: text.to_owned() }
    }

    fn keep_tail(&mut self, text: &str, settled: usize) {
        let from = char_before(text, settled.saturating_sub(CONTEXT));
        text.get(from..).unwrap_or_default().clone_into(&mut self.tail);
        self.held_from = settled.saturating_sub(from);
    }
}

/// The start of a text in which a secret ends that begins before it.
fn start_of(text: &str) -> &str {
    text.get(..char_before(text, HELD)).unwrap_or_default()
}

/// Whether a secret begins before the border of two texts and ends after it.
fn has_secret_across(redactor: &Redactor, before: &str, after: &str) -> bool {
    let joined = format!("{before}{after}");
    let joined = redacted(Some(redactor), &joined);
    let apart = [before, after].map(|part| redacted(Some(redactor), part)).concat();
    // Where there are fewer marks, one text only hides a secret that the other has.
    *joined != *apart && joined.matches(MARK).count() >= apart.matches(MARK).count()
}

/// Whether what was held back is in a text and goes on there.
fn is_said_again(held: &str, text: &str) -> bool {
    let after = text.split_once(held).map(|(_, after)| after);
    after.is_some_and(|after| is_one_word(held, after))
}

/// Whether the last word before a border goes on after it.
fn is_one_word(before: &str, after: &str) -> bool {
    let is_part = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | '`' | '<' | '>');
    before.chars().next_back().is_some_and(is_part) && after.chars().next().is_some_and(is_part)
}

#[cfg(test)]
mod tests {
    use super::super::streamed_text::tests::{marked, redactor, token};
    use super::*;

    fn probe() -> TextProbe {
        TextProbe::new(redactor())
    }

    #[test]
    fn what_waits_for_nothing_is_shown_as_it_is() {
        let mut text = ReplacedText::default();
        for said in ["", "one", "one two é", "else", "Done: 17 of 20"] {
            let forms = text.take(&probe(), "text", said);
            assert_eq!((&*forms.shown, &*forms.whole), (said, said));
            assert!(forms.left.is_empty() && !text.is_held());
        }
    }

    #[test]
    fn of_a_text_that_grows_no_beginning_of_a_secret_is_shown() {
        let (redactor, probe) = (redactor(), probe());
        for before in ["it is ", &"many words é\n".repeat(1000)] {
            let all = format!("{before}{} so", token());
            let mut text = ReplacedText::default();
            let begins = before.len() - 6;
            for end in (begins..=all.len()).chain([all.len()]) {
                let Some(said) = all.get(..end) else { continue };
                let forms = text.take(&probe, "text", said);
                assert!(!marked(&redactor, &forms.shown).contains(&token()[..9]), "{end}");
                assert_eq!(forms.whole, said);
                assert_eq!(text.is_held(), forms.shown != forms.whole, "{end}");
            }
            assert!(text.is_held());
        }
    }

    #[test]
    fn of_pieces_that_the_protocol_does_not_have_no_part_is_shown() {
        let (redactor, probe, token) = (redactor(), probe(), token());
        let mut text = ReplacedText::default();
        for piece in [&token[..10], "", &token[10..20], &token[20..]] {
            let forms = text.take(&probe, "text", piece);
            assert_eq!(forms.shown, "");
            if piece.ends_with("KoX") {
                assert_eq!(marked(&redactor, &forms.whole), marked(&redactor, &token));
            }
        }
        // A text of its own is what it is.
        let forms = text.take(&probe, "text", "\nDone");
        assert_eq!(forms.whole, "\nDone");
        assert_eq!(forms.left, [token]);
    }

    #[test]
    fn what_another_text_replaces_is_left() {
        let mut text = ReplacedText::default();
        let fetching = "Fetching https://example.com/a";
        text.take(&probe(), "text", fetching);
        assert!(text.is_held());
        let forms = text.take(&probe(), "text", "404");
        assert_eq!((&*forms.shown, &*forms.whole), ("", "404"));
        let forms = text.take(&probe(), "text", "\nnot found");
        assert_eq!(forms.left, [fetching, "404"]);
        assert_eq!(forms.shown, "\nnot found");
    }

    #[test]
    fn a_secret_that_goes_on_in_another_text_is_not_left() {
        let (probe, token) = (probe(), token());
        let mut text = ReplacedText::default();
        for (sign, end) in ["⠋", "⠙", "⠹"].iter().zip([15, 25, 40]) {
            let forms = text.take(&probe, "text", &format!("{sign} {}", &token[..end]));
            assert!(forms.left.is_empty() && !forms.shown.contains("ghp_"), "{forms:?}");
        }
    }

    #[test]
    fn of_a_long_text_that_grows_only_the_end_is_scanned() {
        let probe = probe();
        let all = "word \n".repeat(1 << 16);
        let mut text = ReplacedText::default();
        let began = std::time::Instant::now();
        for end in (1000..all.len()).step_by(100) {
            assert_eq!(text.take(&probe, "text", &all[..end]).shown.len(), end);
        }
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    }
}
