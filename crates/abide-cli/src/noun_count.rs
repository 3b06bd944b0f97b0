//! A count and its noun, in the singular or the plural.

/// `1 file`, `2 files`, `1 process`, `0 processes`.
pub(crate) fn noun_count(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    if count == 1 {
        return format!("1 {noun}");
    }
    let stem = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    match stem {
        Some(stem) => format!("{count} {stem}ies"),
        None if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => {
            format!("{count} {noun}es")
        }
        None => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        for (count, noun, words) in [
            (1_u64, "file", "1 file"),
            (0, "file", "0 files"),
            (2, "process", "2 processes"),
            (3, "entry", "3 entries"),
            (4, "day", "4 days"),
            (2, "month", "2 months"),
        ] {
            assert_eq!(noun_count(count, noun), words);
        }
    }
}
