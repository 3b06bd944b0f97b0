//! Reads `.env` files: names and values, as the usual loaders understand them.

/// A name and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvAssignment {
    /// The name.
    pub name: String,
    /// The value, without quotes and escapes. References to other variables stay as they are.
    pub value: String,
}

/// Reads the assignments of a `.env` file. Lines that are none are passed over.
#[must_use]
pub fn read_dotenv(text: &str) -> Vec<EnvAssignment> {
    let mut assignments = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let (line, after) = rest.split_at_checked(line_end).unwrap_or((rest, ""));
        rest = after;
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let Some((name, raw)) = line.split_once('=') else { continue };
        let name = name.trim_end();
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        {
            continue;
        }
        let raw = raw.trim_start();
        let value = match raw.chars().next() {
            Some(quote @ ('"' | '\'' | '`')) => {
                let opened = raw.get(1..).unwrap_or_default();
                if let Some((value, _)) = read_quoted(opened, quote) {
                    value
                } else if let Some((value, used)) = read_quoted(&format!("{opened}\n{rest}"), quote)
                {
                    // The value goes on over several lines.
                    let taken = used.saturating_sub(opened.len() + 1);
                    let end = rest
                        .get(taken..)
                        .and_then(|tail| tail.find('\n'))
                        .map_or(rest.len(), |end| taken + end + 1);
                    rest = rest.get(end..).unwrap_or_default();
                    value
                } else {
                    opened.to_owned()
                }
            }
            _ => raw.split(" #").next().unwrap_or_default().trim_end().to_owned(),
        };
        assignments.push(EnvAssignment { name: name.to_owned(), value });
    }
    assignments
}

/// The value up to its closing quote, and how many bytes that took.
fn read_quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            _ if character == quote => return Some((value, place + 1)),
            '\\' if quote == '"' => match characters.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            _ => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_as_loaders_read_them() {
        let text = "# comment\n\nA=1\nexport B = two words # why\nC=\"x\\ny \\\"z\\\"\" # c\nD='$raw # kept'\nno assignment\nE=\nF=\"line one\nline two\"\nG=a#b\n1 2=3\r\nH=last";
        let read: Vec<_> = read_dotenv(text).into_iter().map(|one| (one.name, one.value)).collect();
        let wanted = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "x\ny \"z\""),
            ("D", "$raw # kept"),
            ("E", ""),
            ("F", "line one\nline two"),
            ("G", "a#b"),
            ("H", "last"),
        ];
        assert_eq!(read, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(read_dotenv("A=\"never closed\nB=2").len(), 2);
    }
}
