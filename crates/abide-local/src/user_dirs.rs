//! The user's directories: data, state, cache and settings.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The name of abide's directory in each of the user's.
const NAME: &str = "abide";
/// The user's own store, in the data directory.
const STORE: &str = "store";
/// Maps users to home directories.
const PASSWD: &str = "/etc/passwd";

/// abide's own directories for a user. Each is `None` if neither a variable nor the home directory
/// determines it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserDirs {
    /// The home directory.
    pub home: Option<PathBuf>,
    /// `$XDG_DATA_HOME/abide`, else `~/.local/share/abide`.
    pub data: Option<PathBuf>,
    /// `$XDG_STATE_HOME/abide`, else `~/.local/state/abide`.
    pub state: Option<PathBuf>,
    /// `$XDG_CACHE_HOME/abide`, else `~/.cache/abide`.
    pub cache: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME/abide/config.toml`, else `~/.config/abide/config.toml`.
    pub config: Option<PathBuf>,
}

impl UserDirs {
    /// Those of the user that this process runs as.
    #[must_use]
    pub fn of_process() -> Self {
        Self::by(|name| std::env::var_os(name), user_dirs_home)
    }

    /// Determined by these variables. `home` is called if `HOME` is not set or not absolute.
    #[must_use]
    pub fn by(
        variable: impl Fn(&str) -> Option<OsString>,
        home: impl FnOnce() -> Option<PathBuf>,
    ) -> Self {
        let absolute =
            |name: &str| variable(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let home = absolute("HOME").or_else(|| home().filter(|dir| dir.is_absolute()));
        let under = |name: &str, below: &str| {
            absolute(name).or_else(|| home.as_ref().map(|home| home.join(below)))
        };
        Self {
            data: under("XDG_DATA_HOME", ".local/share").map(|dir| dir.join(NAME)),
            state: under("XDG_STATE_HOME", ".local/state").map(|dir| dir.join(NAME)),
            cache: under("XDG_CACHE_HOME", ".cache").map(|dir| dir.join(NAME)),
            config: under("XDG_CONFIG_HOME", ".config")
                .map(|dir| dir.join(NAME).join("config.toml")),
            home,
        }
    }

    /// The user's own store, unless their settings name another.
    #[must_use]
    pub fn store(&self) -> Option<PathBuf> {
        self.data.as_ref().map(|data| data.join(STORE))
    }

    /// The same, but `None` if the home directory does not exist: a mistyped name, or a user that
    /// is meant to have no files.
    #[must_use]
    pub(crate) fn store_of_home(&self) -> Option<PathBuf> {
        let gone = self.home.as_ref().filter(|home| !home.is_dir());
        self.store().filter(|store| gone.is_none_or(|gone| !store.starts_with(gone)))
    }
}

/// The home directory in the user's passwd entry.
fn user_dirs_home() -> Option<PathBuf> {
    // If `HOME` is not set at all, ask the system: not every user is in the file.
    let looked_up = || std::env::home_dir().filter(|_| std::env::var_os("HOME").is_none());
    looked_up().or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        home_in(&fs::read(PASSWD).ok()?, user)
    })
}

/// A user's home directory, from the text of a passwd file.
fn home_in(passwd: &[u8], user: u32) -> Option<PathBuf> {
    let home = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b':');
        let id = std::str::from_utf8(fields.nth(2)?).ok()?.parse::<u32>().ok()?;
        let home = fields.nth(2)?;
        (id == user).then(|| PathBuf::from(OsStr::from_bytes(home)))
    };
    passwd.split(|byte| *byte == b'\n').find_map(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(variables: &[(&str, &str)], home: Option<&str>) -> UserDirs {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        UserDirs::by(|name| find(name).map(|(_, value)| value.into()), || home.map(PathBuf::from))
    }

    #[test]
    fn a_variable_goes_before_the_home_and_the_home_before_the_passwd_entry() {
        let store = |variables: &[(&str, &str)], home| by(variables, home).store();
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(store(&[("HOME", "/h")], Some("/p")), at("/h/.local/share/abide/store"));
        assert_eq!(store(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")], None), at("/d/abide/store"));
        assert_eq!(
            store(&[("HOME", "/h"), ("XDG_DATA_HOME", "d")], None),
            at("/h/.local/share/abide/store"),
            "a relative one would be another in every directory"
        );
        for odd in [&[("HOME", "")][..], &[("HOME", "here")], &[]] {
            assert_eq!(store(odd, Some("/p")), at("/p/.local/share/abide/store"), "{odd:?}");
            assert_eq!(store(odd, None), None, "{odd:?}");
            assert_eq!(store(odd, Some("relative")), None, "{odd:?}");
        }
        assert_eq!(store(&[("XDG_DATA_HOME", "/d")], None), at("/d/abide/store"));
        let whole = by(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")], None);
        assert_eq!(whole.config, at("/c/abide/config.toml"));
        assert_eq!(whole.state, at("/h/.local/state/abide"));
        assert_eq!(whole.cache, at("/h/.cache/abide"));
    }

    #[test]
    fn the_home_of_a_user_is_found_in_the_passwd_file() {
        let text = b"root:x:0:0:root:/root:/bin/sh\n# 7\nodd:x:y\nme:x:1000:100:Me,,:/home/me:/bin/sh\nx:x:5:::/x";
        let home = |user| home_in(text, user);
        assert_eq!(home(0), Some("/root".into()));
        assert_eq!(home(1000), Some("/home/me".into()));
        assert_eq!(home(5), Some("/x".into()));
        assert_eq!(home(7), None);
    }
}
