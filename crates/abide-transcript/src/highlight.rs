//! Highlights code: finds keywords, strings, comments, numbers and defined names.
//!
//! A scanner with a table of rules for each family of languages. It guesses where a grammar would
//! know, reads every byte a bounded number of times, and accepts any text. Languages it does not
//! know are plain.

use std::ops::Range;

use memchr::memmem;

use crate::highlight_rules::{CodeRules, CodeSyntax, QuoteRule, code_rules};

/// What a piece of code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeKind {
    Plain,
    Keyword,
    String,
    Comment,
    Number,
    /// A name where it is defined, a key, or an attribute.
    Name,
    /// A line that a diff adds.
    Added,
    /// A line that a diff removes.
    Removed,
}

/// A piece of code of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodeToken {
    pub(crate) kind: CodeKind,
    pub(crate) range: Range<usize>,
}

/// Splits code into tokens that cover all of it, in order. Neighbours differ in kind.
///
/// `language` is a name as it stands behind a fence, such as `rust`, or one that
/// [`language_of_path`] returns.
pub(crate) fn highlight_code(language: &str, text: &str) -> Vec<CodeToken> {
    let mut scanner = CodeScanner { text, at: 0, tokens: Vec::new() };
    match code_rules(language) {
        None => scanner.take_to(text.len(), CodeKind::Plain),
        Some(CodeSyntax::Words(rules)) => scanner.scan_words(rules),
        Some(CodeSyntax::Markup) => scanner.scan_markup(),
        Some(CodeSyntax::Settings(rules)) => scanner.scan_settings(rules),
        Some(CodeSyntax::Diff) => scanner.scan_diff(),
    }
    scanner.tokens
}

/// The language of a file by its name, or nothing: a name for [`highlight_code`].
pub(crate) fn language_of_path(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    match name {
        "Dockerfile" | "Makefile" | "makefile" | "Justfile" | "justfile" | ".bashrc" | ".zshrc"
        | ".profile" => "shell",
        "Gemfile" | "Rakefile" => "ruby",
        "Cargo.lock" | "poetry.lock" | ".gitconfig" | ".editorconfig" => "toml",
        _ => {
            let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
            if code_rules(extension).is_some() { extension } else { "" }
        }
    }
}

struct CodeScanner<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<CodeToken>,
}

impl<'a> CodeScanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes the text up to `end` as one kind. White space between two tokens of a kind joins them.
    fn take_to(&mut self, end: usize, kind: CodeKind) {
        let start = std::mem::replace(&mut self.at, end);
        if start == end {
            return;
        }
        if let Some(last) = self.tokens.last_mut()
            && last.kind == kind
        {
            last.range.end = end;
            return;
        }
        if kind != CodeKind::Plain
            && let [.., before, last] = self.tokens.as_mut_slice()
            && before.kind == kind
            && last.kind == CodeKind::Plain
            && self.text.get(last.range.clone()).is_some_and(is_white)
        {
            before.range.end = end;
            self.tokens.pop();
            return;
        }
        self.tokens.push(CodeToken { kind, range: start..end });
    }

    fn take(&mut self, length: usize, kind: CodeKind) {
        self.take_to(self.at + length, kind);
    }

    fn take_char(&mut self, kind: CodeKind) {
        self.take(self.rest().chars().next().map_or(0, char::len_utf8), kind);
    }

    /// Takes the rest of the line, without its line break.
    fn take_line(&mut self, kind: CodeKind) {
        let rest = self.rest();
        self.take(rest.find('\n').unwrap_or(rest.len()), kind);
    }

    /// Takes what is behind an opening mark of `open` bytes, up to and with the closing mark.
    fn take_through(&mut self, open: usize, close: &str, kind: CodeKind) {
        let rest = self.rest();
        let inner = rest.get(open..).unwrap_or_default();
        let found = memmem::find(inner.as_bytes(), close.as_bytes());
        self.take(found.map_or(rest.len(), |end| open + end + close.len()), kind);
    }

    /// Takes a string, up to its closing mark or, if it may not span lines, the end of the line.
    fn take_quoted(&mut self, rule: &QuoteRule, kind: CodeKind) {
        let rest = self.rest();
        let mut end = rule.open.len();
        while let Some(next) = rest.get(end..).and_then(|inner| inner.chars().next()) {
            if rest.get(end..).is_some_and(|inner| inner.starts_with(rule.close)) {
                end += rule.close.len();
                break;
            }
            if next == '\n' && !rule.spans_lines {
                break;
            }
            end += next.len_utf8();
            if next == '\\' && rule.has_escapes {
                let escaped = rest.get(end..).and_then(|inner| inner.chars().next());
                end += escaped.filter(|c| *c != '\n' || rule.spans_lines).map_or(0, char::len_utf8);
            }
        }
        self.take(end, kind);
    }

    /// Takes a comment, if one starts here.
    fn take_comment(&mut self, rules: &CodeRules) -> bool {
        let rest = self.rest();
        for (open, close) in rules.block_comments {
            if rest.starts_with(open) {
                self.take_through(open.len(), close, CodeKind::Comment);
                return true;
            }
        }
        let hash_in_word = || {
            let before = self.text.get(..self.at).unwrap_or_default();
            !before.is_empty() && !before.ends_with(|c: char| c.is_whitespace() || ";(".contains(c))
        };
        match rules.line_comments.iter().find(|open| rest.starts_with(**open)) {
            // In a shell, `a#b` is a word and `$#` a variable.
            Some(&"#") if hash_in_word() => false,
            Some(_) => {
                self.take_line(CodeKind::Comment);
                true
            }
            None => false,
        }
    }

    /// Takes a string, if one starts here.
    fn take_string(&mut self, rules: &CodeRules) -> bool {
        let rest = self.rest();
        if rules.has_raw_strings
            && let Some(length) = raw_string_length(rest)
        {
            self.take(length, CodeKind::String);
            return true;
        }
        if rules.has_lifetimes && rest.starts_with('\'') {
            let length = char_literal_length(rest);
            let kind = if length == 1 { CodeKind::Plain } else { CodeKind::String };
            self.take(length, kind);
            return true;
        }
        match rules.quotes.iter().find(|rule| rest.starts_with(rule.open)) {
            Some(rule) => {
                self.take_quoted(rule, CodeKind::String);
                true
            }
            None => false,
        }
    }

    fn scan_words(&mut self, rules: &CodeRules) {
        let mut defines = false;
        while let Some(c) = self.rest().chars().next() {
            if self.take_comment(rules) {
                continue;
            }
            if self.take_string(rules) {
                defines = false;
                if rules.has_keys {
                    self.mark_key();
                }
                continue;
            }
            if c.is_ascii_digit() {
                self.take(number_length(self.rest()), CodeKind::Number);
                defines = false;
            } else if is_word_start(c) || rules.sigils.contains(c) {
                let rest = self.rest();
                let length = c.len_utf8() + word_length(rest.get(c.len_utf8()..).unwrap_or(""));
                let word = rest.get(..length).unwrap_or_default();
                let kind = if rules.is_keyword(word) {
                    CodeKind::Keyword
                } else if defines {
                    CodeKind::Name
                } else {
                    CodeKind::Plain
                };
                defines = kind == CodeKind::Keyword && rules.is_definer(word);
                self.take(length, kind);
            } else {
                defines = defines && matches!(c, ' ' | '\t');
                self.take_char(CodeKind::Plain);
            }
        }
    }

    /// Makes the string that was just taken a name, if a colon follows.
    fn mark_key(&mut self) {
        let behind = self.rest().trim_start_matches([' ', '\t']);
        if behind.starts_with(':')
            && let Some(last) = self.tokens.last_mut()
            && last.kind == CodeKind::String
        {
            last.kind = CodeKind::Name;
        }
    }

    /// HTML and XML: the names of tags and attributes, their values, comments.
    fn scan_markup(&mut self) {
        while !self.rest().is_empty() {
            let rest = self.rest();
            if rest.starts_with("<!--") {
                self.take_through(4, "-->", CodeKind::Comment);
            } else if rest.starts_with("</")
                || rest.strip_prefix('<').is_some_and(|behind| behind.starts_with(is_tag_start))
            {
                self.scan_tag();
            } else {
                let next = rest.bytes().skip(1).position(|b| b == b'<');
                self.take(next.map_or(rest.len(), |next| next + 1), CodeKind::Plain);
            }
        }
    }

    fn scan_tag(&mut self) {
        let rest = self.rest();
        let name = rest.find(|c: char| !is_tag_start(c) && !"</:-.".contains(c) && !c.is_numeric());
        self.take(name.unwrap_or(rest.len()), CodeKind::Keyword);
        while let Some(c) = self.rest().chars().next() {
            match c {
                '>' => return self.take(1, CodeKind::Keyword),
                '<' => return,
                '"' | '\'' => {
                    let close = if c == '"' { "\"" } else { "'" };
                    self.take_through(1, close, CodeKind::String);
                }
                '/' if self.rest().starts_with("/>") => return self.take(2, CodeKind::Keyword),
                c if is_word_start(c) => {
                    let rest = self.rest();
                    let end = rest.find(|c: char| c.is_whitespace() || "=>/<\"'".contains(c));
                    self.take(end.unwrap_or(rest.len()), CodeKind::Name);
                }
                _ => self.take_char(CodeKind::Plain),
            }
        }
    }

    /// TOML, INI and YAML: sections, keys, values.
    fn scan_settings(&mut self, rules: &CodeRules) {
        while !self.rest().is_empty() {
            let line = self.rest().split('\n').next().unwrap_or_default();
            let start = line.len() - line.trim_start_matches([' ', '\t', '-']).len();
            self.take(start, CodeKind::Plain);
            let line = line.get(start..).unwrap_or_default();
            let key = line.find(['=', ':', '#', '"', '\'', '{', '[']).unwrap_or(0);
            let ends_key = |mark: &str| {
                mark.starts_with('=')
                    || mark.strip_prefix(':').is_some_and(|rest| !rest.starts_with(is_glued))
            };
            if line.starts_with('[') && line.trim_end().ends_with(']') {
                self.take(line.len(), CodeKind::Keyword);
            } else if key > 0 && line.get(key..).is_some_and(ends_key) {
                self.take(key, CodeKind::Name);
            }
            self.scan_value(rules);
        }
    }

    /// The rest of a line of settings, with its line break.
    fn scan_value(&mut self, rules: &CodeRules) {
        while let Some(c) = self.rest().chars().next() {
            if self.take_comment(rules) || self.take_string(rules) {
                continue;
            }
            if c.is_ascii_digit() {
                self.take(number_length(self.rest()), CodeKind::Number);
            } else if is_word_start(c) {
                let length = word_length(self.rest());
                let word = self.rest().get(..length).unwrap_or_default();
                let keyword = rules.is_keyword(word);
                self.take(length, if keyword { CodeKind::Keyword } else { CodeKind::Plain });
            } else {
                self.take_char(CodeKind::Plain);
                if c == '\n' {
                    return;
                }
            }
        }
    }

    fn scan_diff(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            let line = self.rest().split('\n').next().unwrap_or_default();
            let kind = match c {
                '+' if !line.starts_with("+++ ") => CodeKind::Added,
                '-' if !line.starts_with("--- ") => CodeKind::Removed,
                '+' | '-' => CodeKind::Comment,
                '@' => CodeKind::Keyword,
                ' ' | '\n' => CodeKind::Plain,
                _ if line.starts_with("diff ") || line.starts_with("index ") => CodeKind::Comment,
                _ => CodeKind::Plain,
            };
            self.take(line.len(), kind);
            self.take(self.rest().len().min(1), CodeKind::Plain);
        }
    }
}

fn is_white(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_whitespace())
}

fn is_word_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_tag_start(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '!' | '?' | '/')
}

/// A colon before such a character does not end a key of YAML.
fn is_glued(c: char) -> bool {
    !c.is_whitespace()
}

/// How many bytes of letters, digits and `_` the text starts with.
fn word_length(text: &str) -> usize {
    text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len())
}

/// The length of the number at the start, with its suffix: `0xff`, `1_000.5`, `16px`.
fn number_length(text: &str) -> usize {
    let whole = word_length(text);
    let fraction = text.get(whole..).and_then(|rest| rest.strip_prefix('.'));
    match fraction.filter(|fraction| fraction.starts_with(|c: char| c.is_ascii_digit())) {
        Some(fraction) => whole + 1 + word_length(fraction),
        None => whole,
    }
}

/// The length of `r"…"`, `r#"…"#`, `br"…"` at the start.
fn raw_string_length(text: &str) -> Option<usize> {
    let marks = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let body = marks.trim_start_matches('#');
    let hashes = marks.get(..marks.len() - body.len())?;
    // More would be looked for again at every quote.
    let body = body.strip_prefix('"').filter(|_| hashes.len() <= 16)?;
    let close = format!("\"{hashes}");
    let end = memmem::find(body.as_bytes(), close.as_bytes()).map(|end| end + close.len());
    Some(text.len() - body.len() + end.unwrap_or(body.len()))
}

/// The length of a character in single quotes, or 1 if the quote starts a lifetime.
fn char_literal_length(text: &str) -> usize {
    let inner = text.get(1..).unwrap_or_default();
    let mut chars = inner.char_indices();
    match chars.next() {
        // An escape has ten characters at most.
        Some((_, '\\')) => inner
            .char_indices()
            .skip(2)
            .take(10)
            .find(|(_, c)| *c == '\'')
            .map_or(1, |(end, _)| end + 2),
        Some((_, c)) if c != '\'' && c != '\n' => match chars.next() {
            Some((end, '\'')) => end + 2,
            _ => 1,
        },
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const LANGUAGES: [&str; 22] = [
        "rust", "c", "cpp", "java", "js", "ts", "go", "swift", "kotlin", "csharp", "php", "python",
        "ruby", "shell", "sql", "json", "toml", "yaml", "html", "css", "lua", "haskell",
    ];

    /// The tokens that are not plain, with a letter for each.
    fn marked(language: &str, text: &str) -> Vec<String> {
        let tokens = highlight_code(language, text).into_iter();
        let mark = |token: CodeToken| {
            let letter = match token.kind {
                CodeKind::Plain => return None,
                CodeKind::Keyword => 'k',
                CodeKind::String => 's',
                CodeKind::Comment => 'c',
                CodeKind::Number => 'n',
                CodeKind::Name => 'f',
                CodeKind::Added => '+',
                CodeKind::Removed => '-',
            };
            Some(format!("{letter} {}", &text[token.range]))
        };
        tokens.filter_map(mark).collect()
    }

    #[test]
    fn rust_is_highlighted() {
        assert_eq!(
            marked(
                "rust",
                "pub fn go<'a>(x: &'a str) -> char { // why\n  let y = 0xff_u8; 'x' }\n\"a\\\"b\" r#\"c\"d\"# '\\n' /* e\nf */ b1 1.5 1..2"
            ),
            [
                "k pub fn",
                "f go",
                "c // why",
                "k let",
                "n 0xff_u8",
                "s 'x'",
                "s \"a\\\"b\" r#\"c\"d\"# '\\n'",
                "c /* e\nf */",
                "n 1.5 1",
                "n 2",
            ]
        );
    }

    #[test]
    fn other_languages_are_highlighted() {
        assert_eq!(
            marked("python", "def f(x):\n  '''a\n  b''' # c\n  return None"),
            ["k def", "f f", "s '''a\n  b'''", "c # c", "k return None"]
        );
        assert_eq!(
            marked("sh", "if [ $# -gt 1 ]; then echo 'a' # b"),
            ["k if", "n 1", "k then", "s 'a'", "c # b"]
        );
        assert_eq!(marked("sql", "SELECT a from b -- c"), ["k SELECT", "k from", "c -- c"]);
        assert_eq!(
            marked("json", "{\"a\" : \"b\", \"c\": [1, true]}"),
            ["f \"a\"", "s \"b\"", "f \"c\"", "n 1", "k true"]
        );
        assert_eq!(
            marked("toml", "[a.b] \nc = \"d\" # e\nf.g = 1"),
            ["k [a.b] ", "f c ", "s \"d\"", "c # e", "f f.g ", "n 1"]
        );
        assert_eq!(marked("yaml", "a:\n  - b: http://c\n  - true"), ["f a", "f b", "k true"]);
        assert_eq!(
            marked("html", "<!-- a --><p class=\"b\">1 < 2</p>"),
            ["c <!-- a -->", "k <p", "f class", "s \"b\"", "k >", "k </p>"]
        );
        assert_eq!(
            marked("diff", "--- a\n+++ b\n@@ -1 +1 @@\n c\n-d\n+e\n"),
            ["c --- a\n+++ b", "k @@ -1 +1 @@", "- -d", "+ +e"]
        );
        assert_eq!(marked("lua", "--[[a\nb]] local c -- d"), ["c --[[a\nb]]", "k local", "c -- d"]);
        assert_eq!(marked("js", "`a\n${b}` const c"), ["s `a\n${b}`", "k const"]);
        assert_eq!(marked("", "let \"x\""), Vec::<String>::new());
        assert_eq!(marked("Rust,ignore", "fn a"), ["k fn", "f a"]);
    }

    #[test]
    fn a_path_tells_the_language() {
        for (path, language) in [
            ("src/main.rs", "rs"),
            ("a/b.test.tsx", "tsx"),
            ("C:\\a\\b.py", "py"),
            ("Dockerfile", "shell"),
            ("README", ""),
            ("a.unknown", ""),
            ("", ""),
            ("src.rs/x", ""),
        ] {
            assert_eq!(language_of_path(path), language, "{path}");
        }
    }

    #[test]
    fn openings_without_an_end_are_covered() {
        for language in LANGUAGES {
            for part in ["\"", "'", "/*", "r#\"", "<", "<a ", "{-", "--[[", "#", "=", ":", " \"\n"]
            {
                let text = part.repeat(10_000);
                let tokens = highlight_code(language, &text);
                assert_eq!(tokens.last().map(|token| token.range.end), Some(text.len()));
            }
        }
    }

    proptest! {
        #[test]
        fn tokens_cover_any_text_in_order(
            language in select(LANGUAGES.to_vec()).prop_union(select(vec!["", "diff", "xml"])),
            text in "(\\PC|[\"'`/*#<>=:r{}\\\\\n\t \\-\\[\\]a1é你]){0,60}",
        ) {
            let mut end = 0;
            let mut last = None;
            for token in highlight_code(language, &text) {
                prop_assert_eq!(token.range.start, end);
                prop_assert!(token.range.end > end);
                prop_assert!(text.get(token.range.clone()).is_some());
                prop_assert_ne!(last.replace(token.kind), Some(token.kind));
                end = token.range.end;
            }
            prop_assert_eq!(end, text.len());
        }
    }
}
