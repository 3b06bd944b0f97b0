//! Sets `workspace.include` in the text of a store's settings. Everything else in the text stays.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// Where the setting is in the text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IncludePlaces {
    workspace: IncludePlace,
    project: BTreeMap<String, ProjectPlaces>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectPlaces {
    workspace: IncludePlace,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IncludePlace {
    include: Option<Spanned<Vec<String>>>,
}

/// The text with this `include`, for the store or for a section of `[project]`. An error in words if
/// the text is written in a way in which the place is not found.
pub(crate) fn with_include(
    text: &str,
    section: Option<&str>,
    include: &[String],
) -> Result<String, String> {
    let list: Vec<String> = include.iter().map(|pattern| quoted(pattern)).collect();
    let list = format!("[{}]", list.join(", "));
    let place = include_of(text, section)?;
    let changed = match (&place, section) {
        (Some(place), _) => {
            let (before, after) = (text.get(..place.span().start), text.get(place.span().end..));
            format!("{}{list}{}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        (None, None) => with_line(text, "[workspace]", &format!("include = {list}")),
        (None, Some(name)) => {
            let header = format!("[project.{}]", quoted(name));
            with_line(text, &header, &format!("workspace.include = {list}"))
        }
    };
    match include_of(&changed, section) {
        Ok(Some(now)) if now.get_ref() == include => Ok(changed),
        _ => {
            let by_hand =
                section.map_or("[workspace]".to_owned(), |name| format!("[project.{name:?}]"));
            Err(format!("write workspace.include = {list} under {by_hand} by hand"))
        }
    }
}

/// A string as TOML. What JSON escapes, TOML reads; it also wants DEL escaped.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007f")
}

fn include_of(text: &str, section: Option<&str>) -> Result<Option<Spanned<Vec<String>>>, String> {
    let mut places: IncludePlaces =
        toml::from_str(text).map_err(|error| error.message().to_owned())?;
    Ok(match section {
        None => places.workspace.include,
        Some(name) => places.project.remove(name).and_then(|project| project.workspace.include),
    })
}

/// The text with a line right below this header, which is added at the end if it is missing.
fn with_line(text: &str, header: &str, line: &str) -> String {
    let mut changed = String::with_capacity(text.len() + header.len() + line.len() + 3);
    let mut found = false;
    for own in text.split_inclusive('\n') {
        changed.push_str(own);
        if !found && own.trim() == header {
            found = true;
            if !own.ends_with('\n') {
                changed.push('\n');
            }
            changed.push_str(line);
            changed.push('\n');
        }
    }
    if !found {
        if !changed.is_empty() && !changed.ends_with('\n') {
            changed.push('\n');
        }
        changed.push_str(&format!("\n{header}\n{line}\n"));
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, section: Option<&str>) -> Result<String, String> {
        with_include(text, section, &["/data/".to_owned(), "it's.db".to_owned()])
    }

    #[test]
    fn only_the_setting_changes() {
        let text =
            "version = 1 # one\n\n[workspace]\n# why\ninclude = [] # none\nexclude = [\"x\"]\n";
        assert_eq!(
            set(text, None).unwrap(),
            "version = 1 # one\n\n[workspace]\n# why\ninclude = [\"/data/\", \"it's.db\"] # none\nexclude = [\"x\"]\n"
        );
        assert_eq!(
            set("[workspace]\nmax_files = 3", None).unwrap(),
            "[workspace]\ninclude = [\"/data/\", \"it's.db\"]\nmax_files = 3"
        );
        assert!(
            set("", None).unwrap().ends_with("[workspace]\ninclude = [\"/data/\", \"it's.db\"]\n")
        );
    }

    #[test]
    fn a_project_has_its_own_section() {
        let made = set("version = 1\n", Some("/home/me/a \"b\"")).unwrap();
        assert!(made.starts_with("version = 1\n\n[project."), "{made}");
        let again = with_include(&made, Some("/home/me/a \"b\""), &["x".to_owned()]).unwrap();
        assert!(
            again.contains("workspace.include = [\"x\"]\n") && !again.contains("data"),
            "{again}"
        );
        let text = "[project.\"/p\"]\nretention.thin = true\n";
        assert_eq!(
            set(text, Some("/p")).unwrap(),
            "[project.\"/p\"]\nworkspace.include = [\"/data/\", \"it's.db\"]\nretention.thin = true\n"
        );
    }

    #[test]
    fn what_is_written_otherwise_is_left_to_its_writer() {
        let inline = "project = { \"/p\" = { retention = { thin = true } } }\n";
        assert!(set(inline, Some("/p")).unwrap_err().contains("by hand"));
        assert!(set("[workspace\n", None).is_err());
    }
}
