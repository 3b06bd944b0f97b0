//! A file of settings of an agent: read as a whole, changed in one place, replaced at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json_member::without_member;
use super::plugin_error::PluginError;
use super::toml_table::{has_header, without_header, without_table};

/// What a file of settings says; `None` if it is not there. A blank one says nothing.
pub(super) fn read_settings(file: &Path) -> Result<Option<Value>, PluginError> {
    let Some(text) = read_text(file)? else { return Ok(None) };
    parse_settings(file, &text).map(Some)
}

/// The text of a file; `None` if it is not there.
pub(super) fn read_text(file: &Path) -> Result<Option<String>, PluginError> {
    match fs::read(file) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| PluginError::Settings {
            file: file.to_owned(),
            reason: "it is not UTF-8".to_owned(),
        }),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(PluginError::at(file)(error)),
    }
}

/// Is the file not there, or something above it?
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

pub(super) fn is_toml(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "toml")
}

fn parse_settings(file: &Path, text: &str) -> Result<Value, PluginError> {
    let wrong = |reason: String| PluginError::Settings { file: file.to_owned(), reason };
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value: Value = if is_toml(file) {
        toml::from_str(text).map_err(|error| wrong(error.message().to_owned()))?
    } else {
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?
    };
    if value.is_object() { Ok(value) } else { Err(wrong("it is not an object".to_owned())) }
}

/// Is there a line in a TOML file that begins the table to which these keys lead?
pub(super) fn has_table_header(file: &Path, keys: &[String]) -> Result<bool, PluginError> {
    Ok(read_text(file)?.is_some_and(|text| has_header(&text, keys)))
}

/// Removes what these keys lead to, if it is there.
pub(super) fn remove_setting(file: &Path, keys: &[String]) -> Result<(), PluginError> {
    let without = if is_toml(file) { without_table } else { without_member };
    change_settings(file, |text| without(text, keys))
}

/// Removes the line of a TOML file that begins a table in which only other tables stand.
pub(super) fn remove_table_header(file: &Path, keys: &[String]) -> Result<(), PluginError> {
    change_settings(file, |text| without_header(text, keys))
}

/// Changes a file of settings, unless this gives nothing.
fn change_settings(
    file: &Path,
    change: impl Fn(&str) -> Option<String>,
) -> Result<(), PluginError> {
    loop {
        let Some(text) = read_text(file)? else { return Ok(()) };
        parse_settings(file, &text)?;
        let Some(changed) = change(&text) else { return Ok(()) };
        parse_settings(file, &changed)?;
        // What somebody else wrote in between is read again.
        // The person's link to their settings stays one.
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        if replace_file(&real, &changed, Some(&text))? {
            return Ok(());
        }
    }
}

/// Replaces a file, or makes it, with the directories above it: all of it is there, or nothing has
/// changed. No link is followed.
pub(super) fn write_file(file: &Path, text: &str) -> Result<(), PluginError> {
    if is_link(file) {
        return Err(PluginError::Link { path: file.to_owned() });
    }
    replace_file(file, text, None).map(drop)
}

/// Is it a symbolic link?
pub(super) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Replaces a file. Not if it is to hold a certain text and does not any more.
fn replace_file(file: &Path, text: &str, held: Option<&str>) -> Result<bool, PluginError> {
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).map_err(PluginError::at(parent))?;
    }
    let temporary = temporary_name(file);
    // What stands under that name may be a link to something else, which is not to be written.
    match fs::remove_file(&temporary) {
        Err(error) if !is_absent(&error) => return Err(PluginError::at(&temporary)(error)),
        _ => {}
    }
    let written = (|| {
        let mut out = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        if let Ok(found) = fs::metadata(file) {
            out.set_permissions(found.permissions())?;
        }
        out.write_all(text.as_bytes())?;
        out.sync_all()
    })();
    written.map_err(PluginError::at(&temporary))?;
    if let Some(held) = held
        && !matches!(fs::read(file), Ok(now) if now == held.as_bytes())
    {
        fs::remove_file(&temporary).map_err(PluginError::at(&temporary))?;
        return Ok(false);
    }
    fs::rename(&temporary, file).map_err(PluginError::at(file))?;
    if let Some(parent) = file.parent() {
        // The new name, too. Not every file system can do that.
        let _ = File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(true)
}

/// Removes what a killed change of a file left beside it.
pub(super) fn remove_temporary(file: &Path) {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let _ = fs::remove_file(temporary_name(&real));
}

/// Did a killed change of a file leave something beside it?
pub(super) fn has_temporary(file: &Path) -> bool {
    temporary_name(&file.canonicalize().unwrap_or_else(|_| file.to_owned())).exists()
}

/// Always the same name for a file, so that the next one to write it takes it over.
fn temporary_name(file: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(".abide-tmp");
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (theirs, file) = (dir.path().join("theirs"), dir.path().join("file.js"));
        fs::write(&theirs, "theirs").unwrap();
        symlink(&theirs, temporary_name(&file)).unwrap();
        write_file(&file, "ours").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "ours");
        fs::remove_file(&file).unwrap();
        symlink(&theirs, &file).unwrap();
        assert!(matches!(write_file(&file, "ours"), Err(PluginError::Link { .. })));
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    }

    #[test]
    fn settings_behind_a_link_are_changed_where_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real.json"), dir.path().join("link.json"));
        fs::write(&real, r#"{"a":1,"b":2}"#).unwrap();
        symlink(&real, &link).unwrap();
        remove_setting(&link, &["a".to_owned()]).unwrap();
        assert!(is_link(&link));
        assert_eq!(fs::read_to_string(&real).unwrap(), r#"{"b":2}"#);
    }

    #[test]
    fn settings_that_are_removed_meanwhile_stay_away() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.json");
        fs::write(&file, r#"{"a":1}"#).unwrap();
        let removing = |_: &str| {
            fs::remove_file(&file).unwrap();
            Some("{}".to_owned())
        };
        change_settings(&file, removing).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
