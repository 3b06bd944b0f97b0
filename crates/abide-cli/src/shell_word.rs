//! A word of a command line that people paste into a shell.

/// A word quoted for a shell.
pub(crate) fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut quoted = "'".to_owned();
    for c in word.chars() {
        match c {
            // Outside of the quotes, where every shell reads a backslash in the same way.
            '\'' | '\\' => quoted.extend(['\'', '\\', c, '\'']),
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_quoted_word_as_one() {
        assert_eq!(shell_quoted("/a/b-c.d"), "/a/b-c.d");
        assert_eq!(shell_quoted("a b"), "'a b'");
        assert_eq!(shell_quoted("it's;$x"), r"'it'\''s;$x'");
        assert_eq!(shell_quoted(r"a\"), r"'a'\\''");
        assert_eq!(shell_quoted(""), "''");
    }
}
