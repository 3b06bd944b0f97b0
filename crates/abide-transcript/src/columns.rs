//! Display columns of text: its width, and lines wrapped or cut to a width.
//!
//! Text is measured in clusters: a character together with what is drawn in the same place, such as
//! combining marks, variation selectors and joined emoji. No line ends inside a cluster. Every
//! function is linear in its text. Line breaks are kept; other control characters must be escaped
//! before, and tabs expanded with [`expand_tabs`].

use std::borrow::Cow;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

/// The distance between tab stops.
const TAB: usize = 4;

/// Characters that no line begins with.
const CLOSING: &str = "、。，．！？：；）」』】〉》〕｝ーぁぃぅぇぉっゃゅょァィゥェォッャュョ…";
/// Characters that no line ends with.
const OPENING: &str = "（「『【〈《〔｛";

/// What is drawn in one place.
#[derive(Debug, Clone, Copy)]
struct TextCluster<'a> {
    text: &'a str,
    width: usize,
}

impl TextCluster<'_> {
    fn is_blank(&self) -> bool {
        matches!(self.text, " " | "\t")
    }

    fn is_word(&self) -> bool {
        self.width > 1 || self.text.starts_with(char::is_alphanumeric)
    }

    /// Whether a line may end between this cluster and the next although no blank is there: beside
    /// a wide character, as Chinese and Japanese are written.
    fn may_break_before(&self, next: &Self) -> bool {
        (self.width > 1 || next.width > 1)
            && self.is_word()
            && next.is_word()
            && !next.text.starts_with(|c| CLOSING.contains(c))
            && !self.text.starts_with(|c| OPENING.contains(c))
    }
}

/// The cluster at the start of a text that is not empty.
fn first_cluster(text: &str) -> TextCluster<'_> {
    let bytes = text.as_bytes();
    // Nearly all text is this.
    if bytes.first().is_some_and(u8::is_ascii) && bytes.get(1).is_none_or(u8::is_ascii) {
        return TextCluster { text: text.get(..1).unwrap_or_default(), width: 1 };
    }
    let mut chars = text.char_indices();
    let base = chars.next().map_or('\0', |(_, c)| c);
    let mut before = base;
    let mut flag = is_flag_letter(base);
    let mut end = text.len();
    for (at, c) in chars {
        let joined = before == '\u{200d}' && is_pictograph(c) && is_pictograph(base);
        let paired = flag && is_flag_letter(c);
        if !(joined || paired || is_drawn_on_last(c)) || base == '\n' || base.is_ascii_whitespace()
        {
            end = at;
            break;
        }
        flag = false;
        before = c;
    }
    let text = text.get(..end).unwrap_or(text);
    TextCluster { text, width: text.width() }
}

/// Half of a flag.
const fn is_flag_letter(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Symbols that a joiner combines.
const fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Whether the character takes no column of its own, or changes the colour of the last one.
fn is_drawn_on_last(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
        || (!c.is_ascii() && c.encode_utf8(&mut [0; 4]).width() == 0)
}

/// The clusters of a text and where each begins.
fn text_clusters(text: &str) -> impl Iterator<Item = (usize, TextCluster<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let cluster = first_cluster(rest);
        let start = at;
        at += cluster.text.len();
        Some((start, cluster))
    })
}

/// How many columns a line of text takes.
pub(crate) fn column_width(line: &str) -> usize {
    text_clusters(line).map(|(_, cluster)| cluster.width).sum()
}

/// Wraps text to a width: the lines, without their line breaks.
///
/// A line ends at a blank, beside a wide character, or in a word that is longer than a line. The
/// blanks at such an end are dropped and nothing else is. A cluster that is wider than the width
/// has a line of its own.
pub(crate) fn wrap_columns(text: &str, width: usize) -> impl Iterator<Item = &str> {
    wrapped_ranges(text, width).map(|range| text.get(range).unwrap_or_default())
}

/// [`wrap_columns`], as ranges of the text.
pub(crate) fn wrapped_ranges(text: &str, width: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    text.split('\n').flat_map(move |line| {
        let base = start;
        start += line.len() + 1;
        WrappedLine::new(line, width).map(move |range| base + range.start..base + range.end)
    })
}

/// A place where a line may end.
#[derive(Debug, Clone, Copy)]
struct WrappedLineEnd {
    /// The end of the line.
    end: usize,
    /// The start of the next line, behind the blanks.
    next: usize,
    /// The columns from the start of the line to `next`.
    width: usize,
}

/// Wraps one line.
struct WrappedLine<'a> {
    line: &'a str,
    limit: usize,
    /// Where the current line starts, or nothing behind the last line.
    start: Option<usize>,
    /// How far the text was read, and the columns from `start` to there.
    at: usize,
    width: usize,
    last: Option<TextCluster<'a>>,
    end: Option<WrappedLineEnd>,
}

impl<'a> WrappedLine<'a> {
    fn new(line: &'a str, width: usize) -> Self {
        let limit = width.max(1);
        Self { line, limit, start: Some(0), at: 0, width: 0, last: None, end: None }
    }
}

impl Iterator for WrappedLine<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.start?;
        while let Some(rest) = self.line.get(self.at..).filter(|rest| !rest.is_empty()) {
            let cluster = first_cluster(rest);
            let behind = self.at + cluster.text.len();
            // Blanks at the start of a line are its indentation.
            let indented = self.last.is_none_or(|last| last.is_blank()) && self.end.is_none();
            if cluster.is_blank() && !indented {
                let width = self.width + cluster.width;
                self.end = match self.end {
                    Some(end) if end.next == self.at => {
                        Some(WrappedLineEnd { next: behind, width, ..end })
                    }
                    _ => Some(WrappedLineEnd { end: self.at, next: behind, width }),
                };
            } else {
                if self.last.is_some_and(|last| last.may_break_before(&cluster)) {
                    self.end =
                        Some(WrappedLineEnd { end: self.at, next: self.at, width: self.width });
                }
                if self.width + cluster.width > self.limit && self.at > start {
                    let whole = WrappedLineEnd { end: self.at, next: self.at, width: self.width };
                    let WrappedLineEnd { end, next, width } = self.end.take().unwrap_or(whole);
                    self.start = Some(next);
                    self.width -= width;
                    if next == self.at {
                        self.last = None;
                    }
                    return Some(start..end);
                }
            }
            self.width += cluster.width;
            self.last = Some(cluster);
            self.at = behind;
        }
        self.start = None;
        let overhang = self.end.filter(|end| end.next == self.at && self.width > self.limit);
        Some(start..overhang.map_or(self.at, |end| end.end))
    }
}

/// The start of a line that takes at most this many columns, with `…` where it was cut.
pub(crate) fn cut_columns(line: &str, columns: usize) -> Cow<'_, str> {
    let mut width = 0;
    let mut cut = 0;
    for (at, cluster) in text_clusters(line) {
        width += cluster.width;
        if width > columns {
            let kept = line.get(..cut).unwrap_or_default();
            return Cow::Owned(if columns == 0 { String::new() } else { format!("{kept}…") });
        }
        if width < columns {
            cut = at + cluster.text.len();
        }
    }
    Cow::Borrowed(line)
}

/// A line with blanks instead of tabs, up to every fourth column.
pub(crate) fn expand_tabs(line: &str) -> Cow<'_, str> {
    if !line.contains('\t') {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 16);
    let mut width = 0;
    for (at, part) in line.split('\t').enumerate() {
        if at > 0 {
            let blanks = TAB - width % TAB;
            out.extend(std::iter::repeat_n(' ', blanks));
            width += blanks;
        }
        out.push_str(part);
        width += column_width(part);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(text: &str, width: usize) -> Vec<&str> {
        wrap_columns(text, width).collect()
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrapped("the quick  \nbrown", 9), ["the quick", "brown"]);
        assert_eq!(wrapped("a   b", 2), ["a", "b"]);
        assert_eq!(wrapped("  in ab cd", 6), ["  in", "ab cd"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("ab abcdefgh", 4), ["ab", "abcd", "efgh"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("a\n\nb", 4), ["a", "", "b"]);
        assert_eq!(wrapped("abc", 0), ["a", "b", "c"]);
    }

    #[test]
    fn wide_characters_take_two_columns_and_break_anywhere() {
        assert_eq!(column_width("你好 a"), 6);
        assert_eq!(wrapped("你好世界", 5), ["你好", "世界"]);
        assert_eq!(wrapped("你好abc世界", 5), ["你好", "abc世", "界"]);
        assert_eq!(wrapped("你好世。界", 6), ["你好", "世。界"]);
        assert_eq!(wrapped("一（二）", 4), ["一", "（二", "）"]);
        assert_eq!(wrapped("你", 1), ["你"]);
    }

    #[test]
    fn clusters_stay_whole() {
        let family = "👩\u{200d}👩\u{200d}👧";
        assert_eq!(column_width(family), 2);
        assert_eq!(wrapped(&format!("{family}{family}"), 3), [family, family]);
        assert_eq!(wrapped("e\u{301}e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}", "e\u{301}"]);
        assert_eq!(wrapped("🇩🇪🇫🇷", 2), ["🇩🇪", "🇫🇷"]);
        assert_eq!(wrapped("👍🏽👍🏽", 3), ["👍🏽", "👍🏽"]);
        assert_eq!(wrapped("❤\u{fe0f}❤\u{fe0f}", 3), ["❤\u{fe0f}", "❤\u{fe0f}"]);
        assert_eq!(column_width("\u{200b}\u{301}"), 0);
        assert_eq!(cut_columns("ae\u{301}bc", 3), "ae\u{301}…");
    }

    #[test]
    fn text_is_cut_only_where_it_does_not_fit() {
        assert!(matches!(cut_columns("four", 4), Cow::Borrowed("four")));
        assert_eq!(cut_columns("fives", 4), "fiv…");
        assert_eq!(cut_columns("你好世界", 4), "你…");
        assert_eq!(cut_columns("ab", 1), "…");
        assert_eq!(cut_columns("ab", 0), "");
        assert_eq!(cut_columns("", 0), "");
    }

    #[test]
    fn tabs_reach_the_next_stop() {
        assert_eq!(expand_tabs("\ta\tbcd\t你\te"), "    a   bcd 你  e");
    }

    /// Each cluster is looked at once, and once more for each line that ends before it.
    #[test]
    fn huge_lines_are_wrapped() {
        assert_eq!(wrapped(&"x".repeat(10_000_000), 100).len(), 100_000);
        let marks = format!("a{}", "\u{301}".repeat(1_000_000));
        assert_eq!(wrapped(&marks, 10), [&marks]);
        let many = 100_000;
        assert_eq!(wrapped(&"x ".repeat(many), 10).len(), many / 5);
        assert_eq!(wrapped(&"你".repeat(many), 10).len(), many / 5);
        let joined = "👩\u{200d}".repeat(many);
        assert_eq!(wrapped(&joined, 10).concat(), joined);
        assert_eq!(wrapped(&" ".repeat(many), 10).len(), many / 10);
        assert_eq!(wrapped(&format!("a{}", " ".repeat(many)), 10), ["a"]);
    }

    proptest! {
        #[test]
        fn nothing_but_blanks_is_lost(
            text in "([ab] ?|\\PC|[ \n你好。（👩\u{200d}\u{fe0f}\u{301}🇩🏽]){0,60}",
            width in 0_usize..12,
        ) {
            for line in wrap_columns(&text, width) {
                prop_assert!(!line.contains('\n'));
                let drawn = text_clusters(line).filter(|(_, cluster)| cluster.width > 0).count();
                prop_assert!(column_width(line) <= width.max(1) || drawn == 1, "{line:?}");
            }
            let shown: String = wrap_columns(&text, width).collect();
            let solid = |text: &str| text.replace([' ', '\n'], "");
            prop_assert_eq!(solid(&shown), solid(&text));
        }

        #[test]
        fn a_cut_text_fits(text in "(\\PC|[你👩\u{200d}\u{301}]){0,30}", columns in 0_usize..12) {
            let cut = cut_columns(&text, columns);
            prop_assert!(column_width(&cut) <= columns);
            prop_assert_eq!(cut == text, column_width(&text) <= columns);
        }
    }
}
