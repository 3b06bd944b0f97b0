//! Arguments, as most agents read theirs.

/// Is there an option of one of these names with this value?
pub(crate) fn has_value(options: &[String], names: &[&str], value: &str) -> bool {
    let behind = options.windows(2).any(|pair| match pair {
        [name, next] => names.contains(&name.as_str()) && next == value,
        _ => false,
    });
    let joined = |option: &String| {
        option.split_once('=').is_some_and(|(name, found)| names.contains(&name) && found == value)
    };
    behind || options.iter().any(joined)
}

/// What stands before `--`.
pub(crate) fn options(arguments: &[String]) -> &[String] {
    arguments.split(|argument| argument == "--").next().unwrap_or_default()
}

/// The arguments without some options: those with a value, and those without.
pub(crate) fn without(arguments: &[String], values: &[&str], flags: &[&str]) -> Vec<String> {
    let count = options(arguments).len();
    let (options, rest) = arguments.split_at_checked(count).unwrap_or((arguments, &[]));
    let mut left = Vec::with_capacity(arguments.len());
    let mut words = options.iter().peekable();
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or(word);
        if values.contains(&name) {
            if name == word {
                words.next_if(|value| !value.starts_with('-'));
            }
        } else if !flags.contains(&word.as_str()) {
            left.push(word.clone());
        }
    }
    left.extend_from_slice(rest);
    left
}
