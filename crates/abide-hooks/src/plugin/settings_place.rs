//! Places of a plugin, looked at and removed.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use abide_agents::{PluginMark, PluginPlace, PluginSign};
use serde_json::Value;

use super::plugin_error::PluginError;
use super::settings_file::{
    has_table_header, is_toml, read_settings, read_text, remove_setting, remove_table_header,
    remove_temporary,
};

/// A name for a place, which is the same in every run.
pub(super) fn place_name(place: &PluginPlace) -> String {
    match place {
        PluginPlace::File(path) | PluginPlace::Directory(path) => path.display().to_string(),
        PluginPlace::Setting { file, keys } => {
            format!("{} in {}", keys.join("."), file.display())
        }
        PluginPlace::Header { file, keys } => {
            format!("[{}] in {}", keys.join("."), file.display())
        }
    }
}

/// The file or directory of a place.
pub(super) fn place_path(place: &PluginPlace) -> &Path {
    match place {
        PluginPlace::File(path) | PluginPlace::Directory(path) => path,
        PluginPlace::Setting { file, .. } | PluginPlace::Header { file, .. } => file,
    }
}

/// Is anything there?
pub(super) fn is_present(place: &PluginPlace) -> Result<bool, PluginError> {
    match place {
        PluginPlace::File(path) | PluginPlace::Directory(path) => {
            Ok(fs::symlink_metadata(path).is_ok())
        }
        PluginPlace::Setting { file, keys } => {
            Ok(read_settings(file)?.is_some_and(|whole| !found_keys(&whole, keys).is_empty()))
        }
        PluginPlace::Header { file, keys } => has_table_header(file, keys),
    }
}

/// Is what stands there abide's, or nothing there?
pub(super) fn is_ours(sign: &PluginSign) -> Result<bool, PluginError> {
    if !is_present(&sign.place)? {
        return Ok(true);
    }
    match &sign.proof {
        PluginPlace::File(path) => {
            Ok(read_text(path)?.is_some_and(|text| text.contains(&sign.text)))
        }
        PluginPlace::Setting { file, keys } => Ok(read_settings(file)?.is_some_and(|whole| {
            value_at(&whole, keys).and_then(Value::as_str) == Some(&sign.text)
        })),
        PluginPlace::Directory(_) | PluginPlace::Header { .. } => Ok(true),
    }
}

/// Does the agent's setting, or its copy, say what it should?
pub(super) fn is_marked(mark: &PluginMark) -> Result<bool, PluginError> {
    match mark {
        PluginMark::Setting { file, keys, value } => {
            Ok(read_settings(file)?.is_some_and(|whole| value_at(&whole, keys) == Some(value)))
        }
        PluginMark::NotSetting { file, keys, value } => {
            Ok(read_settings(file)?.is_none_or(|whole| value_at(&whole, keys) != Some(value)))
        }
        PluginMark::Copy(copy) => Ok(read_text(&copy.path)?.is_some_and(|text| text == copy.text)),
        PluginMark::Only { directory, files } => {
            let mut found = Vec::new();
            gather_files(directory, &mut found).map_err(PluginError::at(directory))?;
            Ok(found.len() == files.len() && found.iter().all(|file| files.contains(file)))
        }
    }
}

/// The files in a directory and in the directories in it; none where it is not there.
fn gather_files(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            gather_files(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// What a mark is, for people.
pub(super) fn mark_name(mark: &PluginMark) -> String {
    match mark {
        PluginMark::Setting { file, keys, .. } | PluginMark::NotSetting { file, keys, .. } => {
            format!("{} in {}", keys.join("."), file.display())
        }
        PluginMark::Copy(copy) => copy.path.display().to_string(),
        PluginMark::Only { directory, .. } => directory.display().to_string(),
    }
}

/// Removes a place and all that is in it, if it is there.
pub(super) fn remove_place(place: &PluginPlace) -> Result<(), PluginError> {
    remove_temporary(place_path(place));
    let removed = match place {
        PluginPlace::File(path) => fs::remove_file(path),
        PluginPlace::Directory(path) => fs::remove_dir_all(path),
        PluginPlace::Header { .. } => return remove_if_empty(place),
        PluginPlace::Setting { file, keys } => {
            let whole = read_settings(file)?;
            for keys in whole.iter().flat_map(|whole| found_keys(whole, keys)) {
                remove_setting(file, &keys)?;
            }
            Ok(())
        }
    };
    match removed {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(PluginError::at(place_path(place))(error))
        }
        _ => Ok(()),
    }
}

/// Removes a place if it is there and holds nothing.
pub(super) fn remove_if_empty(place: &PluginPlace) -> Result<(), PluginError> {
    match place {
        PluginPlace::Directory(path) => {
            // Fails where something is in it.
            let _ = fs::remove_dir(path);
            Ok(())
        }
        PluginPlace::Header { file, keys } => remove_table_header(file, keys),
        PluginPlace::File(path) => match read_settings(path)? {
            Some(whole) if holds_nothing(&whole) && !has_comments(path)? => remove_place(place),
            _ => Ok(()),
        },
        PluginPlace::Setting { file, keys } => {
            let whole = read_settings(file)?;
            match whole.as_ref().and_then(|whole| value_at(whole, keys)) {
                Some(Value::Object(inner)) if inner.is_empty() => remove_place(place),
                _ => Ok(()),
            }
        }
    }
}

/// Is nothing in these settings but the version of their form and empty objects?
fn holds_nothing(whole: &Value) -> bool {
    let is_empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    whole.as_object().is_some_and(|members| {
        members.iter().all(|(name, value)| name == "version" || is_empty(value))
    })
}

/// Is there more in a file of settings that hold nothing? Of the forms only TOML has comments.
fn has_comments(file: &Path) -> Result<bool, PluginError> {
    Ok(is_toml(file) && read_text(file)?.is_some_and(|text| !text.trim().is_empty()))
}

fn value_at<'a>(whole: &'a Value, keys: &[String]) -> Option<&'a Value> {
    keys.iter().try_fold(whole, |value, key| value.get(key))
}

/// The keys of all that is meant; a last key that ends in `*` may mean several.
fn found_keys(whole: &Value, keys: &[String]) -> Vec<Vec<String>> {
    let Some((last, above)) = keys.split_last() else { return Vec::new() };
    let Some(Value::Object(inner)) = value_at(whole, above) else { return Vec::new() };
    let is_meant = |name: &&String| match last.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *name == last,
    };
    let found = inner.keys().filter(is_meant);
    found.map(|name| [above, std::slice::from_ref(name)].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_switched_off_or_added_is_no_mark() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        fs::write(&file, r#"{"k": {"on": false}}"#).unwrap();
        let keys = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect();
        let not = |at: &[&str]| PluginMark::NotSetting {
            file: file.clone(),
            keys: keys(at),
            value: Value::Bool(false),
        };
        assert!(!is_marked(&not(&["k", "on"])).unwrap());
        assert!(is_marked(&not(&["k", "off"])).unwrap());
        let only = |files: &[&Path]| PluginMark::Only {
            directory: dir.path().to_owned(),
            files: files.iter().map(|&file| file.to_owned()).collect(),
        };
        assert!(is_marked(&only(&[&file])).unwrap());
        fs::create_dir(dir.path().join("in")).unwrap();
        assert!(is_marked(&only(&[&file])).unwrap());
        fs::write(dir.path().join("in/b"), "").unwrap();
        assert!(!is_marked(&only(&[&file])).unwrap());
    }

    #[test]
    fn a_file_with_a_comment_in_it_is_not_empty() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text, stays) in [
            ("a.toml", "# mine\n", true),
            ("b.toml", "\n", false),
            ("c.json", "{\"version\": 1, \"a\": {}}", false),
            ("d.json", "{\"a\": 1}", true),
        ] {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            remove_if_empty(&PluginPlace::File(path.clone())).unwrap();
            assert_eq!(path.exists(), stays, "{name}");
        }
    }
}
