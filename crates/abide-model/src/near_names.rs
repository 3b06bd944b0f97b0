//! Names that are near one that was typed wrong.

/// Maximum number of suggestions.
const MOST: usize = 3;
/// Of longer names only the beginning is compared.
const LONGEST: usize = 256;

/// The names that are likely meant by `typed`, the nearest first. Upper and lower case are the same.
/// Of a path, the last part alone may be near.
pub fn near_names<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let own = last(typed);
    // The longer a name, the more of its letters may be wrong.
    let most = |text: &str| match text.chars().count() {
        length @ 0..=3 => length / 2,
        length => (length / 4).max(2),
    };
    let near_enough = |typed: &str, name: &str| {
        let far = typed.chars().count().abs_diff(name.chars().count()) > most(typed);
        let distance = if far { None } else { Some(name_distance(typed, name)) };
        distance.filter(|distance| *distance <= most(typed))
    };
    let mut near: Vec<(usize, &str)> = Vec::new();
    for name in names {
        let of_path = near_enough(typed, name);
        // In another directory, a name must be nearer.
        let of_name = near_enough(&own, &last(name)).map(|distance| distance + 1);
        if let Some(distance) = of_path.into_iter().chain(of_name).min() {
            near.push((distance, name));
        }
    }
    near.sort_unstable();
    near.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// How many letters must be added, removed, replaced or swapped with their neighbour to get from one
/// name to the other. Upper and lower case are the same.
#[must_use]
pub fn name_distance(one: &str, other: &str) -> usize {
    let letters = |name: &str| -> Vec<char> {
        name.chars().flat_map(char::to_lowercase).take(LONGEST).collect()
    };
    let (one, other) = (letters(one), letters(other));
    // The distances from the letters of `one` read so far to each beginning of `other`, and those from
    // one letter less, with the last letter read.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    let mut before: Option<(Vec<usize>, char)> = None;
    for (line, letter) in one.iter().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        let mut next = vec![left];
        let mut last_wanted = None;
        for (place, (wanted, above)) in other.iter().zip(row.iter().skip(1)).enumerate() {
            let here = (diagonal + usize::from(letter != wanted)).min(above + 1).min(left + 1);
            let swapped = before.as_ref().filter(|(_, last)| {
                last == wanted && last_wanted == Some(*letter) && letter != wanted
            });
            let swapped = swapped.and_then(|(row, _)| row.get(place.checked_sub(1)?));
            let here = swapped.map_or(here, |distance| here.min(distance + 1));
            diagonal = *above;
            left = here;
            last_wanted = Some(*wanted);
            next.push(here);
        }
        before = Some((std::mem::replace(&mut row, next), *letter));
    }
    row.last().copied().unwrap_or_default()
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
        let keys = ["command", "check", "attempts", "max_duration"];
        for (typed, meant) in [
            ("comand", "command"),
            ("atempt", "attempts"),
            ("max-duration", "max_duration"),
            ("chekc", "check"),
        ] {
            assert_eq!(near_names(typed, keys), [meant], "{typed}");
        }
        assert_eq!(near_names("prompt", keys), [""; 0]);
    }

    #[test]
    fn letters_are_counted() {
        assert_eq!(name_distance("kitten", "sitting"), 3);
        assert_eq!(name_distance("", "ab"), 2);
        assert_eq!(name_distance("ab", ""), 2);
        assert_eq!(name_distance("Same", "same"), 0);
        for (typed, meant, distance) in
            [("truns", "turn", 2), ("sttaus", "status", 1), ("ab", "ba", 1), ("abc", "ca", 3)]
        {
            assert_eq!(name_distance(typed, meant), distance, "{typed}");
            assert_eq!(name_distance(meant, typed), distance, "{meant}");
        }
        assert_eq!(name_distance(&"x".repeat(10_000), &"y".repeat(10_000)), LONGEST);
    }
}
