//! Words and searches for PostgreSQL's text search.
//!
//! Words consist of letters and digits only, so nothing in them is special in a vector, a query or
//! a pattern.

use std::collections::BTreeMap;
use std::fmt::Write;

use abide_model::{PARTS_END, SearchTerm, TextDelta};

/// A vector counts no further than 16383 words …
const PLACES: usize = 16_000;
/// … has at most this many positions of a word …
const PLACES_OF_A_WORD: usize = 255;
/// … and holds at most a megabyte.
const BYTES: usize = 256 << 10;

/// What is stored of a text: the vector, and the text itself if the vector cannot tell its order.
pub(super) fn text_vector(text: &TextDelta) -> (String, Option<String>) {
    let mut whole = text.words.clone();
    // No phrase reaches from one of them to the next.
    for more in [&text.parts, &text.traits].into_iter().filter(|more| !more.is_empty()) {
        whole.push(' ');
        whole.push_str(PARTS_END);
        whole.push(' ');
        whole.push_str(more);
    }
    let (words, text) = words_vector(&whole);
    (words, text.map(str::to_owned))
}

fn words_vector(text: &str) -> (String, Option<&str>) {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut count = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        count += 1;
        places.entry(word).or_default().push(count);
    }
    let ordered = count <= PLACES
        && text.len() <= BYTES
        && places.values().all(|places| places.len() <= PLACES_OF_A_WORD);
    let mut vector = String::with_capacity(text.len() * 2);
    for (word, places) in &places {
        let _ = write!(vector, "'{word}'");
        if ordered {
            for (index, place) in places.iter().enumerate() {
                let _ = write!(vector, "{}{place}", if index == 0 { ':' } else { ',' });
            }
        }
        vector.push(' ');
    }
    (vector, (!ordered).then_some(text))
}

/// A search in PostgreSQL's syntax.
#[derive(Debug)]
pub(super) struct PostgresSearch {
    /// All words, anywhere.
    pub(super) words: String,
    /// All words, those of a phrase one after the other.
    pub(super) phrases: String,
    /// Patterns of the phrases, for a text with a space before and after it: one of each list.
    pub(super) patterns: Vec<Vec<String>>,
}

impl PostgresSearch {
    /// The search for texts with one of each of these lists of terms.
    pub(super) fn of(terms: &[Vec<SearchTerm>]) -> Self {
        let joined = |between: &str| {
            let all = terms.iter().map(|any| {
                let any = any.iter().map(|term| {
                    let last = term.words.len().saturating_sub(1);
                    let words = term.words.iter().enumerate().map(|(index, word)| {
                        let open = if term.prefix && index == last { ":*" } else { "" };
                        format!("'{word}'{open}")
                    });
                    format!("({})", words.collect::<Vec<_>>().join(between))
                });
                format!("({})", any.collect::<Vec<_>>().join(" | "))
            });
            all.collect::<Vec<_>>().join(" & ")
        };
        let pattern = |term: &SearchTerm| {
            let end = if term.prefix { "" } else { " " };
            format!("% {}{end}%", term.words.join(" "))
        };
        let phrases = terms.iter().filter(|any| any.iter().any(|term| term.words.len() > 1));
        let patterns = phrases.map(|any| any.iter().map(pattern).collect());
        Self { words: joined(" & "), phrases: joined(" <-> "), patterns: patterns.collect() }
    }
}

#[cfg(test)]
mod tests {
    use abide_model::Search;

    use super::*;

    #[test]
    fn a_long_text_is_kept_beside_its_vector() {
        assert_eq!(words_vector("b a b"), ("'a':2 'b':1,3 ".to_owned(), None));
        let same = "a ".repeat(256);
        assert_eq!(words_vector(same.trim_end()), ("'a' ".to_owned(), Some(same.trim_end())));
        let many: String = (0..20_000).map(|n| format!("w{n} ")).collect();
        let (words, text) = words_vector(&many);
        assert!(text == Some(many.as_str()) && !words.contains(':'));
    }

    #[test]
    fn a_search_is_words_and_phrases() {
        let search = Search::parse("one \"two three\" parse_li*").unwrap();
        let terms: Vec<Vec<SearchTerm>> = search.terms().iter().map(|t| vec![t.clone()]).collect();
        let wanted = PostgresSearch::of(&terms);
        assert_eq!(wanted.words, "(('one')) & (('two' & 'three')) & (('parse' & 'li':*))");
        assert_eq!(wanted.phrases, "(('one')) & (('two' <-> 'three')) & (('parse' <-> 'li':*))");
        assert_eq!(wanted.patterns, [["% two three %"], ["% parse li%"]]);
        let any = PostgresSearch::of(&[search.terms()[1..].to_vec()]);
        assert_eq!(any.phrases, "(('two' <-> 'three') | ('parse' <-> 'li':*))");
        assert_eq!(any.patterns, [["% two three %", "% parse li%"]]);
    }
}
