//! The languages that are highlighted, and how each marks comments, strings and keywords.

/// How a string is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuoteRule {
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    /// A backslash escapes the character behind it.
    pub(crate) has_escapes: bool,
    pub(crate) spans_lines: bool,
}

impl QuoteRule {
    /// A string with escapes on one line.
    const fn line(mark: &'static str) -> Self {
        Self { open: mark, close: mark, has_escapes: true, spans_lines: false }
    }

    /// A string with escapes on any number of lines.
    const fn lines(mark: &'static str) -> Self {
        Self { open: mark, close: mark, has_escapes: true, spans_lines: true }
    }

    /// A string without escapes on any number of lines.
    const fn raw(mark: &'static str) -> Self {
        Self { open: mark, close: mark, has_escapes: false, spans_lines: true }
    }
}

/// What the words of a language are.
#[derive(Debug)]
pub(crate) struct CodeRules {
    pub(crate) line_comments: &'static [&'static str],
    pub(crate) block_comments: &'static [(&'static str, &'static str)],
    /// The longer marks first.
    pub(crate) quotes: &'static [QuoteRule],
    /// Separated by blanks.
    keywords: &'static str,
    /// Keywords before the name of what they define.
    definers: &'static str,
    /// Marks that begin a word.
    pub(crate) sigils: &'static str,
    /// `SELECT` is `select`.
    ignores_case: bool,
    /// `r#"…"#` is a string.
    pub(crate) has_raw_strings: bool,
    /// `'a` is no string.
    pub(crate) has_lifetimes: bool,
    /// A string before a colon is a key.
    pub(crate) has_keys: bool,
}

impl CodeRules {
    /// Most languages with braces.
    const BRACES: Self = Self {
        line_comments: &["//"],
        block_comments: &[("/*", "*/")],
        quotes: &[QuoteRule::line("\""), QuoteRule::line("'")],
        keywords: "",
        definers: "",
        sigils: "",
        ignores_case: false,
        has_raw_strings: false,
        has_lifetimes: false,
        has_keys: false,
    };

    /// Most languages whose comments begin with `#`.
    const HASH: Self = Self { line_comments: &["#"], block_comments: &[], ..Self::BRACES };

    pub(crate) fn is_keyword(&self, word: &str) -> bool {
        let same = |keyword: &str| {
            keyword == word || (self.ignores_case && keyword.eq_ignore_ascii_case(word))
        };
        // No keyword is longer.
        word.len() <= 16 && self.keywords.split(' ').any(same)
    }

    pub(crate) fn is_definer(&self, keyword: &str) -> bool {
        self.definers.split(' ').any(|definer| definer == keyword)
    }
}

/// How the code of a language is scanned.
#[derive(Debug)]
pub(crate) enum CodeSyntax {
    Words(&'static CodeRules),
    Settings(&'static CodeRules),
    Markup,
    Diff,
}

/// The rules of a language by its name or the extension of its files. What is behind the first word
/// of the name does not count.
pub(crate) fn code_rules(language: &str) -> Option<CodeSyntax> {
    let end = language.find([' ', ',', '{', ':', '\t']).unwrap_or(language.len());
    let name = language.get(..end).filter(|name| name.len() <= 16)?.to_ascii_lowercase();
    Some(match name.as_str() {
        "rust" | "rs" => CodeSyntax::Words(&RUST),
        "c" | "h" | "cpp" | "c++" | "cc" | "cxx" | "hpp" | "hh" | "objc" | "m" | "arduino"
        | "glsl" | "cuda" | "cu" => CodeSyntax::Words(&C),
        "java" | "kotlin" | "kt" | "kts" | "scala" | "groovy" | "gradle" | "csharp" | "cs"
        | "c#" | "dart" => CodeSyntax::Words(&JAVA),
        "js" | "javascript" | "jsx" | "mjs" | "cjs" | "ts" | "typescript" | "tsx" | "mts"
        | "cts" => CodeSyntax::Words(&JAVASCRIPT),
        "go" | "golang" => CodeSyntax::Words(&GO),
        "swift" => CodeSyntax::Words(&SWIFT),
        "php" => CodeSyntax::Words(&PHP),
        "zig" | "proto" | "protobuf" | "solidity" | "sol" => CodeSyntax::Words(&C),
        "python" | "py" | "python3" | "pyi" => CodeSyntax::Words(&PYTHON),
        "ruby" | "rb" | "rake" | "gemspec" => CodeSyntax::Words(&RUBY),
        "elixir" | "ex" | "exs" => CodeSyntax::Words(&RUBY),
        "shell" | "sh" | "bash" | "zsh" | "fish" | "console" | "shellsession" | "dockerfile"
        | "docker" | "makefile" | "make" | "mk" | "just" => CodeSyntax::Words(&SHELL),
        "sql" | "sqlite" | "postgres" | "postgresql" | "mysql" | "plpgsql" => {
            CodeSyntax::Words(&SQL)
        }
        "json" | "jsonc" | "json5" | "jsonl" | "ndjson" => CodeSyntax::Words(&JSON),
        "css" | "scss" | "less" | "sass" => CodeSyntax::Words(&CSS),
        "lua" | "luau" => CodeSyntax::Words(&LUA),
        "haskell" | "hs" | "elm" | "purescript" => CodeSyntax::Words(&HASKELL),
        "toml" | "ini" | "conf" | "cfg" | "properties" | "env" | "yaml" | "yml" | "service"
        | "editorconfig" => CodeSyntax::Settings(&SETTINGS),
        "html" | "htm" | "xml" | "svg" | "xhtml" | "vue" | "svelte" | "plist" => CodeSyntax::Markup,
        "diff" | "patch" => CodeSyntax::Diff,
        _ => return None,
    })
}

static RUST: CodeRules = CodeRules {
    quotes: &[QuoteRule::lines("\"")],
    keywords: "Self as async await break const continue crate dyn else enum extern false fn for if \
               impl in let loop match mod move mut pub ref return self static struct super trait \
               true type unsafe use where while",
    definers: "enum fn mod struct trait type",
    has_raw_strings: true,
    has_lifetimes: true,
    ..CodeRules::BRACES
};

static C: CodeRules = CodeRules {
    keywords: "#define #elif #else #endif #if #ifdef #ifndef #include #pragma NULL auto bool break \
               case catch char class const constexpr continue default delete do double else enum \
               explicit extern false float for friend goto if inline int long message namespace new \
               noexcept nullptr operator override private protected public register return short \
               signed sizeof static struct switch template this throw true try typedef typename \
               union unsigned using virtual void volatile while",
    definers: "class enum namespace struct union",
    sigils: "#",
    ..CodeRules::BRACES
};

static JAVA: CodeRules = CodeRules {
    quotes: &[QuoteRule::lines("\"\"\""), QuoteRule::line("\""), QuoteRule::line("'")],
    keywords: "abstract as async await base boolean break byte case catch char class companion \
               const continue data def default do double else enum extends false final finally \
               float for foreach fun get if implements import in init instanceof int interface \
               internal is lateinit long namespace new null object open operator out override \
               package private protected public readonly record return sealed set short static \
               string struct super suspend switch this throw throws trait true try typeof using val \
               var virtual void when where while yield",
    definers: "class def enum fun interface object record struct trait",
    ..CodeRules::BRACES
};

static JAVASCRIPT: CodeRules = CodeRules {
    quotes: &[QuoteRule::line("\""), QuoteRule::line("'"), QuoteRule::lines("`")],
    keywords: "abstract any as async await boolean break case catch class const continue debugger \
               declare default delete do else enum export extends false finally for from function \
               get if implements import in instanceof interface keyof let namespace never new null \
               number of private protected public readonly return satisfies set static string super \
               switch this throw true try type typeof undefined unknown var void while yield",
    definers: "class enum function interface namespace type",
    sigils: "$",
    ..CodeRules::BRACES
};

static GO: CodeRules = CodeRules {
    quotes: &[QuoteRule::line("\""), QuoteRule::line("'"), QuoteRule::raw("`")],
    keywords: "any bool break byte case chan const continue default defer else error fallthrough \
               false float64 for func go goto if import int int64 interface iota map nil package \
               range return rune select string struct switch true type uint64 var",
    definers: "func package type",
    ..CodeRules::BRACES
};

static SWIFT: CodeRules = CodeRules {
    quotes: &[QuoteRule::lines("\"\"\""), QuoteRule::line("\"")],
    keywords: "actor as associatedtype async await break case catch class continue default defer do \
               else enum extension false for func guard if import in init inout internal is let \
               mutating nil override private protocol public repeat return self some static struct \
               super switch throw throws true try typealias var where while",
    definers: "actor class enum extension func protocol struct",
    sigils: "@",
    ..CodeRules::BRACES
};

static PHP: CodeRules = CodeRules {
    line_comments: &["//", "#"],
    quotes: &[QuoteRule::lines("\""), QuoteRule::lines("'")],
    keywords: "abstract array as bool break case catch class const continue default do echo else \
               elseif enum extends false final finally fn for foreach function if implements \
               include instanceof int interface match namespace new null private protected public \
               readonly require require_once return self static string switch throw trait true try \
               use void while yield",
    definers: "class enum function interface namespace trait",
    sigils: "$",
    ..CodeRules::BRACES
};

static PYTHON: CodeRules = CodeRules {
    quotes: &[
        QuoteRule::lines("\"\"\""),
        QuoteRule::lines("'''"),
        QuoteRule::line("\""),
        QuoteRule::line("'"),
    ],
    keywords: "False None True and as assert async await break case class continue def del elif \
               else except finally for from global if import in is lambda match nonlocal not or \
               pass raise return self try while with yield",
    definers: "class def",
    sigils: "@",
    ..CodeRules::HASH
};

static RUBY: CodeRules = CodeRules {
    quotes: &[QuoteRule::lines("\""), QuoteRule::lines("'")],
    keywords: "alias and begin break case class def defmodule defp do else elsif end ensure false \
               fn for if in module next nil not or raise require rescue retry return self super \
               then true undef unless until use when while with yield",
    definers: "class def defmodule defp module",
    sigils: "@:",
    ..CodeRules::HASH
};

static SHELL: CodeRules = CodeRules {
    quotes: &[QuoteRule::lines("\""), QuoteRule::raw("'")],
    keywords: "ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM RUN USER WORKDIR case do done elif else esac \
               eval exec exit export fi for function if in local readonly return set shift source \
               then trap unset until while",
    definers: "function",
    ..CodeRules::HASH
};

static SQL: CodeRules = CodeRules {
    line_comments: &["--"],
    quotes: &[QuoteRule::raw("'"), QuoteRule::raw("\"")],
    keywords: "add all alter and as asc begin between bigint boolean by case check commit conflict \
               constraint create cross default delete desc distinct do drop else end exists explain \
               foreign from full function group having if in index inner insert int integer into is \
               join key left like limit not nothing null offset on or order outer over partition \
               pragma primary recursive references replace returning returns right rollback select \
               set table text then timestamp transaction trigger true union unique update using \
               values varchar view when where with",
    ignores_case: true,
    ..CodeRules::BRACES
};

static JSON: CodeRules = CodeRules {
    quotes: &[QuoteRule::line("\""), QuoteRule::line("'")],
    keywords: "false null true",
    has_keys: true,
    ..CodeRules::BRACES
};

static CSS: CodeRules = CodeRules {
    line_comments: &[],
    keywords: "@charset @container @font @import @include @keyframes @layer @media @mixin @page \
               @property @supports @use and from important not or to",
    sigils: "@#.",
    ..CodeRules::BRACES
};

static LUA: CodeRules = CodeRules {
    line_comments: &["--"],
    block_comments: &[("--[[", "]]")],
    quotes: &[
        QuoteRule { open: "[[", close: "]]", has_escapes: false, spans_lines: true },
        QuoteRule::line("\""),
        QuoteRule::line("'"),
    ],
    keywords: "and break do else elseif end false for function goto if in local nil not or repeat \
               return then true until while",
    definers: "function",
    ..CodeRules::BRACES
};

static HASKELL: CodeRules = CodeRules {
    line_comments: &["--"],
    block_comments: &[("{-", "-}")],
    quotes: &[QuoteRule::line("\"")],
    keywords: "as case class data deriving do else forall hiding if import in infix infixl infixr \
               instance let module newtype of qualified then type where",
    definers: "class data module newtype type",
    has_lifetimes: true,
    ..CodeRules::BRACES
};

static SETTINGS: CodeRules = CodeRules {
    line_comments: &["#", ";"],
    quotes: &[
        QuoteRule::lines("\"\"\""),
        QuoteRule::raw("'''"),
        QuoteRule::line("\""),
        QuoteRule { open: "'", close: "'", has_escapes: false, spans_lines: false },
    ],
    keywords: "False True false no null off on true yes",
    ..CodeRules::HASH
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_keyword_is_too_long_to_be_found_and_definers_are_keywords() {
        for rules in [
            &RUST,
            &C,
            &JAVA,
            &JAVASCRIPT,
            &GO,
            &SWIFT,
            &PHP,
            &PYTHON,
            &RUBY,
            &SHELL,
            &SQL,
            &JSON,
            &CSS,
            &LUA,
            &HASKELL,
            &SETTINGS,
        ] {
            for word in rules
                .keywords
                .split(' ')
                .chain(rules.definers.split(' ').filter(|word| !word.is_empty()))
            {
                assert!(rules.is_keyword(word), "{word}");
            }
        }
    }
}
