//! Changes one setting of `[workspace]` in the text of a store's settings. Everything else in the text
//! stays.

use std::collections::BTreeMap;

use abide_workspace::SecretFiles;
use serde::Deserialize;
use toml::{Spanned, Value};

/// A setting of `[workspace]` and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkspaceSetting {
    /// `workspace.include`.
    Include(Vec<String>),
    /// `workspace.secrets`.
    Secrets(SecretFiles),
}

impl WorkspaceSetting {
    const fn name(&self) -> &'static str {
        match self {
            Self::Include(_) => "include",
            Self::Secrets(_) => "secrets",
        }
    }

    /// The value as TOML.
    fn value(&self) -> String {
        match self {
            Self::Include(patterns) => {
                let list: Vec<String> = patterns.iter().map(|pattern| quoted(pattern)).collect();
                format!("[{}]", list.join(", "))
            }
            Self::Secrets(secrets) => quoted(secrets.as_str()),
        }
    }
}

/// Where the settings are in the text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SettingPlaces {
    workspace: BTreeMap<String, Spanned<Value>>,
    project: BTreeMap<String, ProjectPlaces>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProjectPlaces {
    workspace: BTreeMap<String, Spanned<Value>>,
}

/// The text with this setting, for the store or for a section of `[project]`. An error in words if
/// the text is written in a way in which the place is not found.
pub(crate) fn with_workspace_setting(
    text: &str,
    section: Option<&str>,
    setting: &WorkspaceSetting,
) -> Result<String, String> {
    let (name, value) = (setting.name(), setting.value());
    let place = place_of(text, section, name)?;
    let changed = match (&place, section) {
        (Some(place), _) => {
            let (before, after) = (text.get(..place.span().start), text.get(place.span().end..));
            format!("{}{value}{}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        (None, None) => with_line(text, "[workspace]", &format!("{name} = {value}")),
        (None, Some(project)) => {
            let header = format!("[project.{}]", quoted(project));
            with_line(text, &header, &format!("workspace.{name} = {value}"))
        }
    };
    let wanted = toml::from_str::<toml::Table>(&format!("value = {value}"));
    let wanted = wanted.ok().and_then(|mut table| table.remove("value"));
    match place_of(&changed, section, name) {
        Ok(Some(now)) if Some(now.get_ref()) == wanted.as_ref() => Ok(changed),
        _ => {
            let by_hand =
                section.map_or("[workspace]".to_owned(), |name| format!("[project.{name:?}]"));
            Err(format!("write workspace.{name} = {value} under {by_hand} by hand"))
        }
    }
}

/// A string as TOML. What JSON escapes, TOML reads; it also wants DEL escaped.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007f")
}

fn place_of(
    text: &str,
    section: Option<&str>,
    name: &str,
) -> Result<Option<Spanned<Value>>, String> {
    let mut places: SettingPlaces =
        toml::from_str(text).map_err(|error| error.message().to_owned())?;
    Ok(match section {
        None => places.workspace.remove(name),
        Some(section) => {
            places.project.remove(section).and_then(|mut project| project.workspace.remove(name))
        }
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
        let include = vec!["/data/".to_owned(), "it's.db".to_owned()];
        with_workspace_setting(text, section, &WorkspaceSetting::Include(include))
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
        let again = WorkspaceSetting::Include(vec!["x".to_owned()]);
        let again = with_workspace_setting(&made, Some("/home/me/a \"b\""), &again).unwrap();
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
    fn what_becomes_of_secret_files_is_set_beside_the_rest() {
        let omit = WorkspaceSetting::Secrets(SecretFiles::Omit);
        let keep = WorkspaceSetting::Secrets(SecretFiles::Keep);
        let made = with_workspace_setting("[workspace]\ninclude = [\"x\"]\n", None, &omit).unwrap();
        assert_eq!(made, "[workspace]\nsecrets = \"omit\"\ninclude = [\"x\"]\n");
        let again = with_workspace_setting(&made, None, &keep).unwrap();
        assert_eq!(again, "[workspace]\nsecrets = \"keep\"\ninclude = [\"x\"]\n");
        let project = with_workspace_setting("version = 1\n", Some("/p"), &omit).unwrap();
        assert_eq!(project, "version = 1\n\n[project.\"/p\"]\nworkspace.secrets = \"omit\"\n");
    }

    #[test]
    fn what_is_written_otherwise_is_left_to_its_writer() {
        let inline = "project = { \"/p\" = { retention = { thin = true } } }\n";
        assert!(set(inline, Some("/p")).unwrap_err().contains("by hand"));
        assert!(set("[workspace\n", None).is_err());
    }
}
