//! Names that are near one that was typed wrong.

/// Maximum number of suggestions.
const MOST: usize = 3;
/// Longer names are not compared letter by letter.
const LONGEST: usize = 256;

/// The names that are likely meant by `typed`, the nearest first.
pub(crate) fn near_names<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<&'a str> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let (whole, own) = (typed.to_lowercase(), last(typed));
    // The longer a name, the more of its letters may be wrong.
    let most = |text: &str| match text.chars().count() {
        length @ 0..=3 => length / 2,
        length => (length / 4).max(2),
    };
    let mut near: Vec<(usize, &str)> = Vec::new();
    for name in names {
        let of_path = distance(&whole, &name.to_lowercase(), most(&whole));
        // In another directory, a name must be nearer.
        let of_name = distance(&own, &last(name), most(&own)).map(|distance| distance + 1);
        if let Some(distance) = of_path.into_iter().chain(of_name).min() {
            near.push((distance, name));
        }
    }
    near.sort_unstable();
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// How many letters must be added, removed or replaced; `None` if more than `most`.
fn distance(a: &str, b: &str, most: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > most || a.len().max(b.len()) > LONGEST {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, one) in a.iter().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        let mut next = vec![left];
        for (other, above) in b.iter().zip(row.iter().skip(1)) {
            let here = (diagonal + usize::from(one != other)).min(above + 1).min(left + 1);
            diagonal = *above;
            left = here;
            next.push(here);
        }
        row = next;
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first() {
        let names = ["src/main.rs", "src/lib.rs", "tests/main.rs", "README.md", "docs/guide.md"];
        assert_eq!(near_names("src/mian.rs", names), ["src/main.rs", "tests/main.rs"]);
        assert_eq!(near_names("main.rs", names), ["src/main.rs", "tests/main.rs"]);
        assert_eq!(near_names("readme.md", names), ["README.md"]);
        assert_eq!(near_names("nothing/like/it", names), [""; 0]);
        assert_eq!(near_names("", names), [""; 0]);
    }

    #[test]
    fn letters_are_counted() {
        assert_eq!(distance("kitten", "sitting", 3), Some(3));
        assert_eq!(distance("kitten", "sitting", 2), None);
        assert_eq!(distance("", "ab", 2), Some(2));
        assert_eq!(distance("same", "same", 0), Some(0));
    }
}
