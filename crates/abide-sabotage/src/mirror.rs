//! A mirror of the workspace in which the sources of one package have the breaks in them.
//!
//! The directories of the package are directories, so that relative paths (`include_str!`,
//! `#[path]`) lead where they lead in the original; its files are links to the original, but for those
//! with breaks. The other packages and everything else at the root are links.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::instrument::instrument;
use crate::list::Edit;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A mirror of the workspace for one package.
#[derive(Debug)]
pub struct Mirror {
    root: PathBuf,
    package: String,
    dir: PathBuf,
}

impl Mirror {
    /// A mirror of the workspace at `root`, in the directory `dir`.
    pub fn new(root: &Path, package: &str, dir: &Path) -> Self {
        Self { root: root.to_owned(), package: package.to_owned(), dir: dir.to_owned() }
    }

    /// Where the root of the workspace is in the mirror.
    pub fn root(&self) -> PathBuf {
        self.dir.join("tree")
    }

    /// Brings the mirror up to date. Compilers that start at the same time wait for each other.
    pub fn update(&self, edits: &[Edit]) -> Result<(), Failure> {
        let package = Path::new("crates").join(&self.package);
        fs::create_dir_all(self.root().join(&package))?;
        let lock = File::create(self.dir.join("lock"))?;
        lock.lock()?;
        self.link_all_but(Path::new(""), "crates")?;
        self.link_all_but(Path::new("crates"), &self.package)?;
        self.update_directory(&package, edits)
    }

    /// Makes a directory of links, but for one entry.
    fn link_all_but(&self, directory: &Path, but: &str) -> io::Result<()> {
        let names = names(&self.root.join(directory))?;
        for name in names.iter().filter(|name| *name != but) {
            self.link(&directory.join(name))?;
        }
        self.remove_all_but(directory, &names)
    }

    fn update_directory(&self, directory: &Path, edits: &[Edit]) -> Result<(), Failure> {
        fs::create_dir_all(self.root().join(directory))?;
        let names = names(&self.root.join(directory))?;
        for name in &names {
            let path = directory.join(name);
            let of_file: Vec<Edit> =
                edits.iter().filter(|edit| edit.file == path).cloned().collect();
            if self.root.join(&path).is_dir() {
                self.update_directory(&path, edits)?;
            } else if of_file.is_empty() {
                self.link(&path)?;
            } else {
                self.break_file(&path, &of_file)?;
            }
        }
        // A file that is gone has no name here.
        let gone = edits.iter().find(|edit| {
            edit.file.parent() == Some(directory) && !self.root.join(&edit.file).is_file()
        });
        match gone {
            Some(edit) => {
                Err(format!("break {:?}: there is no {}", edit.name, edit.file.display()).into())
            }
            None => Ok(self.remove_all_but(directory, &names)?),
        }
    }

    fn link(&self, path: &Path) -> io::Result<()> {
        let (original, link) = (self.root.join(path), self.root().join(path));
        if fs::read_link(&link).is_ok_and(|to| to == original) {
            return Ok(());
        }
        remove(&link)?;
        symlink(original, link)
    }

    /// Writes a file with its breaks, unless that was done with the same inputs before.
    fn break_file(&self, path: &Path, edits: &[Edit]) -> Result<(), Failure> {
        let source = fs::read_to_string(self.root.join(path))?;
        let mut hasher = DefaultHasher::new();
        (&source, edits, include_str!("instrument.rs")).hash(&mut hasher);
        let inputs = format!("{:016x}", hasher.finish());

        let (out, stamp) = (self.root().join(path), self.dir.join("stamps").join(path));
        if fs::read_to_string(&stamp).is_ok_and(|before| before == inputs)
            && fs::symlink_metadata(&out).is_ok_and(|data| data.is_file())
        {
            return Ok(());
        }
        let broken = instrument(&source, edits)?;
        if fs::symlink_metadata(&out).is_ok_and(|data| !data.is_file()) {
            remove(&out)?;
        }
        write(&out, &broken)?;
        Ok(write(&stamp, &inputs)?)
    }

    fn remove_all_but(&self, directory: &Path, names_there: &BTreeSet<OsString>) -> io::Result<()> {
        let mirrored = self.root().join(directory);
        for name in names(&mirrored)?.difference(names_there) {
            remove(&mirrored.join(name))?;
        }
        Ok(())
    }
}

/// The names in a directory, without build directories and hidden ones.
fn names(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    let names = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mirrored = |name: &OsString| !name.as_encoded_bytes().starts_with(b".") && name != "target";
    names.filter(|name| name.as_ref().map_or(true, mirrored)).collect()
}

/// Removes what is there, if anything is.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

/// Writes a file if it has another content, in one step.
pub(crate) fn write(path: &Path, content: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}~", std::process::id()));
    fs::write(&temporary, content)?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace in a directory that is removed at the end.
    struct Lab(PathBuf);

    impl Lab {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            let lab = Self(dir);
            for (path, content) in [
                ("README.md", "all"),
                ("crates/other/text", "of the other"),
                ("crates/own/src/lib.rs", "mod a;\nmod b;\n"),
                ("crates/own/src/a.rs", "fn f() { 1 }"),
                ("crates/own/src/b.rs", "fn g() { 2 }"),
            ] {
                write(&lab.0.join("root").join(path), content).unwrap();
            }
            lab
        }

        fn mirror(&self) -> Mirror {
            Mirror::new(&self.0.join("root"), "own", &self.0.join("mirror"))
        }

        fn read(&self, path: &str) -> io::Result<String> {
            fs::read_to_string(self.mirror().root().join(path))
        }
    }

    impl Drop for Lab {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn edit(file: &str, find: &str) -> Edit {
        let (name, replace) = ("broken".to_owned(), "9".to_owned());
        Edit { name, file: file.into(), find: find.to_owned(), replace }
    }

    #[test]
    fn it_holds_what_is_there_and_the_breaks() {
        let lab = Lab::new("sabotage-mirror");
        let mirror = lab.mirror();
        mirror.update(&[edit("crates/own/src/a.rs", "1")]).unwrap();
        assert!(lab.read("crates/own/src/a.rs").unwrap().ends_with("{ 9 } else { 1 }}"));
        assert_eq!(lab.read("crates/own/src/b.rs").unwrap(), "fn g() { 2 }");
        assert_eq!(lab.read("crates/own/src/../../other/text").unwrap(), "of the other");
        assert_eq!(lab.read("crates/own/../../README.md").unwrap(), "all");

        // Another break, another file, one file less.
        let root = lab.0.join("root/crates/own/src");
        write(&root.join("c.rs"), "fn h() {}").unwrap();
        fs::remove_file(root.join("lib.rs")).unwrap();
        mirror.update(&[edit("crates/own/src/b.rs", "2")]).unwrap();
        assert_eq!(lab.read("crates/own/src/a.rs").unwrap(), "fn f() { 1 }");
        assert!(lab.read("crates/own/src/b.rs").unwrap().ends_with("{ 9 } else { 2 }}"));
        assert_eq!(lab.read("crates/own/src/c.rs").unwrap(), "fn h() {}");
        assert!(lab.read("crates/own/src/lib.rs").is_err());
        assert_eq!(fs::read_to_string(root.join("b.rs")).unwrap(), "fn g() { 2 }", "as it was");

        write(&root.join("b.rs"), "fn g() { 2 + 1 }").unwrap();
        mirror.update(&[edit("crates/own/src/b.rs", "2")]).unwrap();
        assert!(lab.read("crates/own/src/b.rs").unwrap().ends_with("{ 9 + 1 } else { 2 + 1 }}"));
    }

    #[test]
    fn a_file_is_written_only_when_it_changes() {
        let lab = Lab::new("sabotage-unchanged");
        let (mirror, edits) = (lab.mirror(), [edit("crates/own/src/a.rs", "1")]);
        mirror.update(&edits).unwrap();
        let out = mirror.root().join("crates/own/src/a.rs");
        fs::write(&out, "as it was written").unwrap();
        mirror.update(&edits).unwrap();
        assert_eq!(fs::read_to_string(&out).unwrap(), "as it was written");
    }

    #[test]
    fn a_break_that_does_not_apply_is_named() {
        let lab = Lab::new("sabotage-named");
        let said = |edit| lab.mirror().update(&[edit]).unwrap_err().to_string();
        let gone = said(edit("crates/own/src/gone.rs", "1"));
        assert_eq!(gone, "break \"broken\": there is no crates/own/src/gone.rs");
        let away = said(edit("crates/own/src/a.rs", "7"));
        assert_eq!(away, "break \"broken\": its text does not stand in crates/own/src/a.rs");
    }
}
