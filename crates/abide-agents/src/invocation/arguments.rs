//! Arguments, as most agents read theirs.

/// The options of an agent that have values behind them.
#[derive(Debug)]
pub(crate) struct ArgumentOptions {
    /// Those that have one.
    pub values: &'static [&'static str],
    /// Those that have any number.
    pub lists: &'static [&'static str],
}

impl ArgumentOptions {
    /// The arguments, told apart: options with their values, and the rest.
    pub(crate) const fn words<'a>(&'a self, arguments: &'a [String]) -> ArgumentWords<'a> {
        ArgumentWords { table: self, arguments, at: 0, values: 0, closed: false }
    }
}

/// An argument.
pub(crate) struct ArgumentWord<'a> {
    pub(crate) at: usize,
    pub(crate) text: &'a str,
    /// Is it an option, or a value of one?
    pub(crate) option: bool,
}

/// The arguments of a command, one after the other.
pub(crate) struct ArgumentWords<'a> {
    table: &'a ArgumentOptions,
    arguments: &'a [String],
    at: usize,
    /// How many words belong to the option before.
    values: usize,
    closed: bool,
}

impl<'a> Iterator for ArgumentWords<'a> {
    type Item = ArgumentWord<'a>;

    fn next(&mut self) -> Option<ArgumentWord<'a>> {
        let at = self.at;
        let text = self.arguments.get(at)?.as_str();
        self.at += 1;
        let dashed = text.starts_with('-') && text != "-";
        let option = if self.closed {
            false
        } else if self.values == 1 {
            self.values = 0;
            true
        } else if dashed {
            self.values = match text {
                text if self.table.values.contains(&text) => 1,
                text if self.table.lists.contains(&text) => usize::MAX,
                _ => 0,
            };
            self.closed = text == "--";
            true
        } else {
            self.values > 0
        };
        Some(ArgumentWord { at, text, option })
    }
}

/// Is there an option of one of these names with this value?
pub(crate) fn arguments_have_value(options: &[String], names: &[&str], value: &str) -> bool {
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
pub(crate) fn arguments_before_dashes(arguments: &[String]) -> &[String] {
    arguments.split(|argument| argument == "--").next().unwrap_or_default()
}

/// The arguments without some options: those with a value, and those without.
pub(crate) fn arguments_without(
    arguments: &[String],
    values: &[&str],
    flags: &[&str],
) -> Vec<String> {
    let count = arguments_before_dashes(arguments).len();
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
