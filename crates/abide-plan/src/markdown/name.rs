//! Parses the words of a heading or a checkbox: id, title and dependency.

/// A title with the id and the dependency written with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskLabel<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) title: &'a str,
    pub(super) after: Option<&'a str>,
}

/// The words, separated by single spaces.
pub(super) fn name_on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Is it an id like `P1.M1.T1`? A single part must start with a capital.
pub(super) fn is_id(text: &str) -> bool {
    let part = |part: &str| {
        let letters = part.bytes().take_while(u8::is_ascii_alphabetic).count();
        let digits = part.get(letters..).unwrap_or_default();
        letters > 0 && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let single = !text.contains('.');
    text.split('.').all(part) && (!single || text.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Parses the words. If the id is marked, the rest is the title verbatim.
pub(super) fn read_task_name(text: &str) -> TaskLabel<'_> {
    if let Some((title, id)) = marked_name(text) {
        return TaskLabel { id: Some(id), title, after: None };
    }
    let (title, after) = match after_name(text) {
        Some((title, after)) => (title, Some(after)),
        None => (text, None),
    };
    match name_led_by_id(title) {
        Some((id, title)) => TaskLabel { id: Some(id), title, after },
        None => TaskLabel { id: None, title, after },
    }
}

/// `Title {#id}`.
fn marked_name(text: &str) -> Option<(&str, &str)> {
    let (title, id) = text.strip_suffix('}')?.rsplit_once("{#")?;
    let title = title.strip_suffix(' ')?.trim_end();
    let good = !id.is_empty() && !id.contains(|c: char| c.is_whitespace() || "{}".contains(c));
    (good && !title.is_empty()).then_some((title, id))
}

/// `Title (after: other)`.
fn after_name(text: &str) -> Option<(&str, &str)> {
    let (title, names) = text.strip_suffix(')')?.rsplit_once("(after:")?;
    let (title, names) = (title.strip_suffix(' ')?.trim_end(), names.trim());
    (!title.is_empty() && !names.is_empty()).then_some((title, names))
}

/// `` `P1` Title ``, `**P1** Title`, `**P1:** Title`, `P1: Title`.
fn name_led_by_id(text: &str) -> Option<(&str, &str)> {
    let (id, rest) = if let Some(rest) = text.strip_prefix('`') {
        rest.split_once('`')?
    } else if let Some(rest) = text.strip_prefix("**") {
        rest.split_once("**")?
    } else {
        let (id, rest) = text.split_once(':')?;
        (id, rest.starts_with([' ', '\t']).then_some(rest)?)
    };
    let id = id.trim_end_matches(':');
    let title = rest.strip_prefix(':').unwrap_or(rest);
    let title = title.trim_start_matches([' ', '\t']);
    (is_id(id) && !title.is_empty() && title.len() < rest.len()).then_some((id, title))
}
