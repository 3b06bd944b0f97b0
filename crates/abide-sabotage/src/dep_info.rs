//! The list of files that a crate was compiled from, by which cargo decides whether to compile it
//! anew.
//!
//! The compiler names the files of the mirror. Cargo must look at the originals, and at the edits.

use std::path::{Path, PathBuf};

/// The content of a `.d` file.
#[derive(Debug)]
pub struct DepInfo(String);

impl DepInfo {
    /// Takes the content of a `.d` file.
    pub fn new(content: String) -> Self {
        Self(content)
    }

    /// Names the files below a directory as those below another one.
    pub fn replace(&mut self, from: &Path, to: &Path) {
        let prefix = |path: &Path| {
            let path = path.to_string_lossy().replace(' ', "\\ ");
            if path.is_empty() || path.ends_with('/') { path } else { path + "/" }
        };
        self.0 = self.0.replace(&prefix(from), &prefix(to));
    }

    /// The files that were read.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let rules = self.0.lines().filter(|line| !line.starts_with('#'));
        rules.filter_map(|line| Some(line.strip_suffix(':')?.replace("\\ ", " ").into()))
    }

    /// Leaves out the variables whose names begin so.
    pub fn forget_variables(&mut self, beginning: &str) {
        let comment = format!("# env-dep:{beginning}");
        let kept = self.0.lines().filter(|line| !line.starts_with(&comment));
        self.0 = kept.map(|line| format!("{line}\n")).collect();
    }

    /// Adds a file.
    pub fn add(&mut self, path: &Path) {
        let path = path.to_string_lossy().replace(' ', "\\ ");
        let lines = self.0.lines().map(|line| match line.split_once(": ") {
            // Only rules; comments tell the environment.
            Some(_) if !line.starts_with('#') => format!("{line} {path}\n"),
            _ => format!("{line}\n"),
        });
        let mut content: String = lines.collect();
        content.push_str(&format!("\n{path}:\n"));
        self.0 = content;
    }

    /// The content as it is to be written.
    pub fn content(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_originals_and_what_was_added_are_named() {
        let content = "/out/a.d: /mirror/my\\ tree/src/lib.rs /mirror/my\\ tree/src/b.rs\n\n\
                       /mirror/my\\ tree/src/lib.rs:\n/mirror/my\\ tree/src/b.rs:\n\n\
                       # env-dep:A=x: y\n# env-dep:B_C=z\n# env-dep:B_D\n";
        let mut dep_info = DepInfo::new(content.to_owned());
        let files: Vec<PathBuf> = dep_info.files().collect();
        assert_eq!(
            files,
            [Path::new("/mirror/my tree/src/lib.rs"), Path::new("/mirror/my tree/src/b.rs")]
        );
        dep_info.replace(Path::new("/mirror/my tree"), Path::new("/tree"));
        dep_info.forget_variables("B_");
        dep_info.add(Path::new("/edits/a b.json"));
        assert_eq!(
            dep_info.content(),
            "/out/a.d: /tree/src/lib.rs /tree/src/b.rs /edits/a\\ b.json\n\n\
             /tree/src/lib.rs:\n/tree/src/b.rs:\n\n# env-dep:A=x: y\n\n/edits/a\\ b.json:\n"
        );
    }
}
