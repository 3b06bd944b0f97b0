//! The known name that a mistyped one is closest to.

/// The known name that differs from this one in the fewest letters; `None` if all differ in more than
/// a third.
#[must_use]
pub fn nearest_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = name.chars().count().div_ceil(3);
    let near = known.into_iter().map(|known| (edit_distance(name, known), known));
    near.filter(|(edits, _)| *edits <= most).min().map(|(_, known)| known)
}

/// How many letters must be inserted, removed or replaced to get from one word to the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // The edits from the letters of `from` read so far to each beginning of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (read, letter) in from.chars().enumerate() {
        let mut before = read;
        let mut left = read + 1;
        let mut next = vec![left];
        for (wanted, above) in to.iter().zip(row.iter().skip(1)) {
            let replaced = before + usize::from(*wanted != letter);
            left = replaced.min(above + 1).min(left + 1);
            before = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_none() {
        let known = ["command", "check", "attempts", "max_duration"];
        let near = |name| nearest_name(name, known);
        assert_eq!(near("comand"), Some("command"));
        assert_eq!(near("atempt"), Some("attempts"));
        assert_eq!(near("max-duration"), Some("max_duration"));
        assert_eq!(near("chekc"), Some("check"));
        assert_eq!(near("prompt"), None);
        assert_eq!(near(""), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
    }
}
