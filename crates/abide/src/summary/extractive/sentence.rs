//! Finds sentences that state a decision.

/// Words that occur in a decision or in its reason.
const DECIDING: [&str; 27] = [
    "i'll",
    "i will",
    "i'm going to",
    "i am going to",
    "we'll",
    "we will",
    "let's",
    "let me",
    "decided",
    "decide to",
    "decision",
    "chose",
    "chosen",
    "choose",
    "opted",
    "prefer",
    "going with",
    "instead",
    "rather than",
    "because",
    "so that",
    "the plan",
    "root cause",
    "turns out",
    "must not",
    "won't",
    "should not",
];

/// The sentences of a text that state a decision, in order. Code blocks are skipped.
pub(super) fn deciding_sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            fenced = !fenced;
        } else if !fenced {
            found.extend(split_sentences(line).filter(|sentence| sentence_decides(sentence)));
        }
    }
    found
}

/// Splits a line into sentences: each ends with `.`, `!` or `?` before white space.
fn split_sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends = |(at, c): (usize, char)| {
            let end = at + c.len_utf8();
            let after = rest.get(end..).and_then(|after| after.chars().next());
            let is_end = matches!(c, '.' | '!' | '?') && after.is_none_or(char::is_whitespace);
            is_end.then_some(end)
        };
        let end = rest.char_indices().find_map(ends).unwrap_or(rest.len());
        let (sentence, more) = rest.split_at_checked(end).unwrap_or((rest, ""));
        rest = more.trim_start();
        Some(sentence.trim_start_matches(['-', '*', '>', ' ']))
    })
}

fn sentence_decides(sentence: &str) -> bool {
    let plain = sentence.to_lowercase().replace('’', "'");
    DECIDING.iter().any(|word| {
        plain.match_indices(word).any(|(at, _)| {
            let before = plain.get(..at).and_then(|before| before.chars().next_back());
            let after = plain.get(at + word.len()..).and_then(|after| after.chars().next());
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_found_and_talk_is_not() {
        let text = "Hello there. I’ll use lib.rs 2.0 for it! Tests pass.\n\
                    - We chose SQLite because it is there\n\
                    ```\n// I'll not be seen. Because.\n```\n\
                    Unbecausely insteadof nothing?";
        let expected = ["I’ll use lib.rs 2.0 for it!", "We chose SQLite because it is there"];
        assert_eq!(deciding_sentences(text), expected);
        assert_eq!(deciding_sentences("because"), ["because"]);
        assert!(deciding_sentences("").is_empty());
    }
}
