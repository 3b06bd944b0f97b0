//! The digits of marks, which take the place of secrets: `‹redacted:RULE:DIGITS›`.
//!
//! They are a hash with the user's key. On another machine, or after the key was lost, the same secret
//! has other ones. So they are left out where a task is compared: a text that says the same must
//! not be done again. An edit of nothing but a secret is therefore no edit of the task.

use std::borrow::Cow;

/// How every mark begins.
const OPENING: &str = "‹redacted:";
/// How every mark ends.
const CLOSING: char = '›';
/// How many digits a mark may have. They may have been left out.
const DIGITS: [usize; 3] = [0, 8, 32];
/// No shorter value is known as a secret.
const SHORTEST: usize = 6;

/// The text with all of its marks, but without their digits.
pub(crate) fn without_mark_digits(text: &str) -> Cow<'_, str> {
    if !has_mark(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, rule, after)) = next_mark(rest) {
        out.extend([before, OPENING, rule, ":"]);
        out.push(CLOSING);
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

pub(crate) fn has_mark(text: &str) -> bool {
    next_mark(text).is_some()
}

/// Do two texts say the same, if each mark in one of them stands for something in the other? A value
/// may be known as a secret on one day and not on another, such as that of a variable that is not always
/// set.
pub(crate) fn is_same_but_for_marks(one: &str, other: &str) -> bool {
    one == other || fills_marks(one, other) || fills_marks(other, one)
}

/// Is a text the marked one, with what may be a secret in the place of each mark? That is not too short and
/// has no white space: with several words it is rather another text.
fn fills_marks(marked: &str, text: &str) -> bool {
    let Some((first, _, mut marked)) = next_mark(marked) else { return false };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let is_filling = |text: &str| text.len() >= SHORTEST && !text.contains(char::is_whitespace);
    while let Some((part, _, after)) = next_mark(marked) {
        let mut places = text.match_indices(part).map(|(at, _)| text.split_at(at));
        let Some((filling, rest)) = places.find(|(filling, _)| filling.len() >= SHORTEST) else {
            return false;
        };
        if !is_filling(filling) {
            return false;
        }
        text = rest.strip_prefix(part).unwrap_or(rest);
        marked = after;
    }
    text.strip_suffix(marked).is_some_and(is_filling)
}

/// The first mark of a text: what stands before it, its rule, and what stands after it.
fn next_mark(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices(OPENING).find_map(|(at, _)| {
        let (before, mark) = text.split_at(at);
        let (rule, after) = split_mark(mark.strip_prefix(OPENING)?)?;
        Some((before, rule, after))
    })
}

/// The rule of the mark whose opening stands before this text, and the text after the mark.
fn split_mark(text: &str) -> Option<(&str, &str)> {
    let (rule, rest) = text.split_once(':')?;
    let is_rule = !rule.is_empty() && rule.bytes().all(is_rule_byte);
    let end = rest.trim_start_matches(|digit: char| matches!(digit, '0'..='9' | 'a'..='f'));
    let digits = rest.len() - end.len();
    let after = end.strip_prefix(CLOSING)?;
    (is_rule && DIGITS.contains(&digits)).then_some((rule, after))
}

const fn is_rule_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_digits_of_marks_are_left_out() {
        let long = format!("‹redacted:own.rule_1:{}›", "0123456789abcdef".repeat(2));
        for (text, wanted) in [
            ("", ""),
            ("a ‹redacted:github-token:7f3a91c2› b", "a ‹redacted:github-token:› b"),
            ("‹redacted:a:7f3a91c2›‹redacted:b:00000000›", "‹redacted:a:›‹redacted:b:›"),
            (long.as_str(), "‹redacted:own.rule_1:›"),
            ("‹redacted:‹redacted:a:7f3a91c2›", "‹redacted:‹redacted:a:›"),
        ] {
            assert_eq!(without_mark_digits(text), wanted);
        }
        for other in [
            "‹redacted:unscanned:12345 bytes›",
            "‹redacted:a:7f3a91c›",
            "‹redacted:a:7f3a91c23›",
            "‹redacted:a b:7f3a91c2›",
            "‹redacted:a:7f3a91c2",
            "‹redacted:",
        ] {
            assert_eq!(without_mark_digits(other), other);
        }
    }

    #[test]
    fn a_mark_stands_for_what_may_be_a_secret() {
        let mark = "‹redacted:env:7f3a91c2›";
        for (marked, text) in [
            ("Use M.", "Use hunter22."),
            ("M", "hunter22"),
            ("M and M", "hunter22 and 33retnuh"),
            ("a=M, b=M", "a=a,b=no,b=b, b=b=b=b=b"),
            ("MM", "hunter22hunter"),
            ("Use M and M", "Use M and hunter22"),
            ("é M ü", "é größer22 ü"),
        ] {
            let [marked, text] = [marked, text].map(|text| text.replace('M', mark));
            assert!(is_same_but_for_marks(&marked, &text), "{marked} {text}");
            let bare = without_mark_digits(&marked);
            assert!(is_same_but_for_marks(&text, &bare), "{bare} {text}");
        }
        for (marked, text) in [
            ("Use M.", "Use hunter22"),
            ("Use M", "Take hunter22"),
            ("Use M", "Use "),
            ("Use M", "Use it"),
            ("Fix M", "Fix the login"),
            ("Use M", "Use hunter22\n"),
            ("M and M", "hunter22 or 33retnuh"),
            ("MM", "hunter22"),
            ("Use hunter22", "Use hunter23"),
        ] {
            let [marked, text] = [marked, text].map(|text| text.replace('M', mark));
            assert!(!is_same_but_for_marks(&marked, &text), "{marked} {text}");
        }
    }
}
