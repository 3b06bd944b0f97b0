//! A search: words, prefixes and phrases, all of which must occur.

use std::ops::Range;

use serde::Serialize;

use super::words::{Word, word_parts, words};

/// Maximum number of words in a search.
const MAX_WORDS: usize = 64;

/// Why a search is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// No words.
    #[error("no word to search for in {text:?}")]
    NoWord {
        /// The text as given.
        text: String,
    },
    /// Too many words.
    #[error("a search can have at most {MAX_WORDS} words")]
    TooLong,
}

/// Consecutive words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchTerm {
    /// The folded words; at least one.
    pub words: Vec<String>,
    /// The last word is a prefix.
    pub prefix: bool,
}

/// A search. A text matches if it contains every term: among its words, or among the parts of one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    terms: Vec<SearchTerm>,
}

/// Part of a text around a match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Excerpt {
    /// The text on one line, with `…` where something is left out.
    pub text: String,
    /// The byte ranges of the matched words.
    pub found: Vec<Range<usize>>,
}

impl Search {
    /// Parses user input: words, `pref*`ixes and `"phrases"`. A word with punctuation in it
    /// (`parse_line`, `src/main.rs`) is a phrase of its parts.
    pub fn parse(text: &str) -> Result<Self, SearchError> {
        let mut terms = Vec::new();
        // Every second part is quoted. An unclosed quote ends with the text.
        for (index, part) in text.split('"').enumerate() {
            if index % 2 == 1 {
                terms.extend(SearchTerm::of(part, false));
            } else {
                terms.extend(part.split_whitespace().filter_map(|word| {
                    let open = word.trim_end_matches('*');
                    SearchTerm::of(open, open.len() < word.len())
                }));
            }
        }
        if terms.is_empty() {
            return Err(SearchError::NoWord { text: text.chars().take(80).collect() });
        }
        if terms.iter().map(|term: &SearchTerm| term.words.len()).sum::<usize>() > MAX_WORDS {
            return Err(SearchError::TooLong);
        }
        Ok(Self { terms })
    }

    /// All terms of these searches.
    #[must_use]
    pub fn joined<'a>(searches: impl IntoIterator<Item = &'a Self>) -> Self {
        Self { terms: searches.into_iter().flat_map(|search| search.terms.clone()).collect() }
    }

    /// The terms.
    #[must_use]
    pub fn terms(&self) -> &[SearchTerm] {
        &self.terms
    }

    /// Does this text contain every term?
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let words: Vec<Word> = words(text).filter(|word| !word.folded.is_empty()).collect();
        let parts: Vec<Vec<Word>> = words.iter().map(|word| parts_of(text, word)).collect();
        self.terms.iter().all(|term| {
            let is_among = |words: &[Word]| (0..words.len()).any(|at| term.is_at(words, at));
            is_among(&words) || parts.iter().any(|parts| is_among(parts))
        })
    }

    /// About `width` characters of a text, around the place with the most matches.
    #[must_use]
    pub fn excerpt(&self, text: &str, width: usize) -> Excerpt {
        let all: Vec<Word> = words(text).filter(|word| !word.folded.is_empty()).collect();
        let mut found: Vec<(usize, Range<usize>)> = Vec::new();
        for (at, word) in all.iter().enumerate() {
            let parts = parts_of(text, word);
            for (index, term) in self.terms.iter().enumerate() {
                let whole = term.place_at(&all, at).into_iter();
                let places =
                    whole.chain((0..parts.len()).filter_map(|at| term.place_at(&parts, at)));
                found.extend(places.map(|place| (index, place)));
            }
        }
        let start = self.densest(&found, width);
        cut_search_excerpt(text, start, width, &found)
    }

    /// The start of the first window of `width` bytes that contains the most terms. `found` is in
    /// the order of the text.
    fn densest(&self, found: &[(usize, Range<usize>)], width: usize) -> usize {
        let mut best = (0, 0);
        let mut counts = vec![0_usize; self.terms.len()];
        // The window holds `found[first..next]`.
        let mut next = 0;
        for (first, (term, place)) in found.iter().enumerate() {
            while let Some((entered, _)) =
                found.get(next).filter(|(_, end)| next <= first || end.end <= place.start + width)
            {
                if let Some(count) = counts.get_mut(*entered) {
                    *count += 1;
                }
                next += 1;
            }
            let terms = counts.iter().filter(|count| **count > 0).count();
            if terms > best.0 {
                best = (terms, place.start);
            }
            if let Some(count) = counts.get_mut(*term) {
                *count -= 1;
            }
        }
        best.1
    }
}

impl SearchTerm {
    fn of(text: &str, prefix: bool) -> Option<Self> {
        let words: Vec<String> =
            words(text).map(|word| word.folded).filter(|word| !word.is_empty()).collect();
        (!words.is_empty()).then_some(Self { words, prefix })
    }

    /// Is it among these words?
    pub(super) fn is_in(&self, words: &[&str]) -> bool {
        let last = self.words.len() - 1;
        (0..words.len()).any(|at| {
            self.words.iter().enumerate().all(|(index, wanted)| {
                words.get(at + index).is_some_and(|word| match index == last && self.prefix {
                    true => word.starts_with(wanted.as_str()),
                    false => word == wanted,
                })
            })
        })
    }

    /// The place of its match at this word, if it matches.
    fn place_at(&self, words: &[Word], at: usize) -> Option<Range<usize>> {
        let (first, last) = (words.get(at)?, words.get(at + self.words.len() - 1)?);
        self.is_at(words, at).then_some(first.place.start..last.place.end)
    }

    /// Does it match at this word?
    fn is_at(&self, words: &[Word], at: usize) -> bool {
        let last = self.words.len() - 1;
        self.words.iter().enumerate().all(|(index, wanted)| {
            words.get(at + index).is_some_and(|word| {
                if index == last && self.prefix {
                    word.folded.starts_with(wanted.as_str())
                } else {
                    word.folded == *wanted
                }
            })
        })
    }
}

/// The parts of a word of a text, as words.
fn parts_of(text: &str, word: &Word) -> Vec<Word> {
    let whole = text.get(word.place.clone()).unwrap_or_default();
    let start = word.place.start;
    let part = |part: Range<usize>| Word {
        folded: whole.get(part.clone()).unwrap_or_default().to_ascii_lowercase(),
        place: start + part.start..start + part.end,
    };
    word_parts(whole).into_iter().map(part).collect()
}

/// Cuts an excerpt out of a text, on one line.
fn cut_search_excerpt(
    text: &str,
    near: usize,
    width: usize,
    found: &[(usize, Range<usize>)],
) -> Excerpt {
    // A third of the width goes to the text before the match.
    let before: usize = text
        .get(..near)
        .unwrap_or_default()
        .chars()
        .rev()
        .take(width / 3)
        .map(char::len_utf8)
        .sum();
    let mut start = near - before;
    // Start with a whole word if one starts soon.
    if start > 0
        && let Some(space) = text.get(start..near).and_then(|part| part.find(char::is_whitespace))
    {
        start += space;
    }
    let part = text.get(start..).unwrap_or_default();
    let end = part.char_indices().nth(width).map_or(text.len(), |(at, _)| start + at);
    let mut places: Vec<Range<usize>> = found
        .iter()
        .map(|(_, place)| place.clone())
        .filter(|place| place.start >= start && place.end <= end)
        .collect();
    places.sort_by_key(|place| (place.start, place.end));
    let mut excerpt = Excerpt::default();
    if start > 0 {
        excerpt.text.push('…');
    }
    let mut places = places.into_iter().peekable();
    let mut open: Option<(usize, usize)> = None;
    let mut spaced = true;
    for (offset, c) in text.get(start..end).unwrap_or_default().char_indices() {
        let at = start + offset;
        while let Some(place) = places.next_if(|place| place.start <= at) {
            open = match open {
                Some((first, last)) => Some((first, last.max(place.end))),
                None => Some((excerpt.text.len(), place.end)),
            };
        }
        if let Some((first, last)) = open
            && at >= last
        {
            excerpt.found.push(first..excerpt.text.len());
            open = None;
        }
        if c.is_whitespace() {
            if !std::mem::replace(&mut spaced, true) {
                excerpt.text.push(' ');
            }
        } else {
            spaced = false;
            excerpt.text.push(c);
        }
    }
    if let Some((first, _)) = open {
        excerpt.found.push(first..excerpt.text.len());
    }
    if end < text.len() {
        excerpt.text.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marked(search: &str, text: &str, width: usize) -> String {
        let excerpt = Search::parse(search).unwrap().excerpt(text, width);
        let mut out = String::new();
        let mut done = 0;
        for place in excerpt.found {
            out.push_str(&excerpt.text[done..place.start]);
            out.push_str(&format!("[{}]", &excerpt.text[place.clone()]));
            done = place.end;
        }
        out + &excerpt.text[done..]
    }

    #[test]
    fn words_prefixes_and_phrases_are_found() {
        let finds = |search: &str, text: &str| Search::parse(search).unwrap().matches(text);
        assert!(finds("Parser LINE", "the last line of the parser"));
        assert!(!finds("parser lines", "the last line of the parser"));
        assert!(finds("pars* li*", "the last line of the parser"));
        assert!(finds("\"last line\" parser", "the last line of the parser"));
        assert!(!finds("\"line last\"", "the last line of the parser"));
        assert!(finds("parse_line", "call parse_line() now") && !finds("parse_line", "line parse"));
        assert!(finds("rows", "parse_rows(x)") && finds("row* parse", "call parseRows now"));
        assert!(
            finds("bar", "a FooBar") && finds("foobar", "a FooBar") && finds("foo_bar", "FooBar")
        );
        assert!(finds("\"a foobar\"", "a FooBar") && !finds("\"a foo\"", "a FooBar"));
        assert!(!finds("\"bar foo\"", "FooBar FooBar") && finds("--no-verify", "git --no-verify"));
        assert!(finds("本", "日本語") && finds("日本", "日本語") && !finds("本日", "日本語"));
        assert!(finds("\"unclosed phrase", "an unclosed phrase"));
        for nothing in ["", "  ", "***", "\"\"", "++ --"] {
            assert!(matches!(Search::parse(nothing), Err(SearchError::NoWord { .. })), "{nothing}");
        }
        assert_eq!(Search::parse(&"a ".repeat(70)), Err(SearchError::TooLong));
    }

    #[test]
    fn an_excerpt_shows_what_was_found_where_most_of_it_is() {
        assert_eq!(marked("line", "the last line", 80), "the last [line]");
        let long = format!(
            "line {} the parser\n\n  drops the last line {}",
            "x ".repeat(200),
            "y ".repeat(200)
        );
        let shown = marked("parser \"last line\"", &long, 60);
        assert!(shown.contains("the [parser] drops the [last line] y"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert_eq!(marked("pars* parser", "a parser", 20), "a [parser]");
        assert_eq!(marked("rows", "a parseRows", 60), "a parse[Rows]");
    }

    proptest! {
        #[test]
        fn an_excerpt_of_anything_holds_together(
            text in "\\PC{0,300}",
            search in "[a-c日é\" *]{1,12}",
            width in 1_usize..100,
        ) {
            let Ok(search) = Search::parse(&search) else { return Ok(()) };
            let excerpt = search.excerpt(&text, width);
            prop_assert!(excerpt.text.chars().count() <= width + 2);
            let mut end = 0;
            for place in &excerpt.found {
                prop_assert!(place.start >= end && place.end > place.start);
                prop_assert!(excerpt.text.get(place.clone()).is_some());
                end = place.end;
            }
        }
    }
}
