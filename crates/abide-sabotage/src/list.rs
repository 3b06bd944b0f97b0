//! The list of deliberate breaks, as `sabotage.toml` has it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where the list is, below the root of the workspace.
const LIST: &str = "crates/abide-sabotage/sabotage.toml";

/// All breaks, in the order of the file.
#[derive(Debug, Deserialize)]
pub struct List {
    /// The breaks. No two have the same name.
    #[serde(rename = "break")]
    pub breaks: Vec<Break>,
}

/// One break and the tests that must notice it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// The name, which also switches it on.
    pub name: String,
    /// The source file, relative to the root of the workspace.
    pub file: PathBuf,
    /// The text to be replaced. It stands exactly once in the file.
    pub find: String,
    /// What stands in its place when the break is on.
    pub replace: String,
    /// What `cargo test` would be given: the package, the target, and which of its tests.
    pub tests: Vec<String>,
    /// The test that notices never ends, and is killed after this many seconds.
    pub hangs: Option<u64>,
    /// The program, or the environment variable if it begins with `$`, without which the test cannot
    /// run.
    pub needs: Option<String>,
}

/// What of a break concerns the compiler.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Edit {
    /// The name of the break.
    pub name: String,
    /// The source file, relative to the root of the workspace.
    pub file: PathBuf,
    /// The text to be replaced.
    pub find: String,
    /// What stands in its place.
    pub replace: String,
}

/// A test target: `-p PACKAGE --lib` or `-p PACKAGE --test NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The package.
    pub package: String,
    /// The name of the integration test; none for the unit tests of the library.
    pub test: Option<String>,
}

/// What is wrong with a break.
#[derive(Debug)]
pub struct Fault {
    /// The name of the break.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "break {:?}: {}", self.name, self.reason)
    }
}

impl std::error::Error for Fault {}

impl List {
    /// Reads the list of a workspace.
    pub fn read(root: &Path) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let path = root.join(LIST);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text)
    }

    /// Reads a list from its text.
    pub fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let list: Self = toml::from_str(text)?;
        let mut names = BTreeSet::new();
        for one in &list.breaks {
            if !names.insert(&one.name) {
                return Err(one.fault("there is another one of this name").into());
            }
            one.target()?;
        }
        Ok(list)
    }

    /// The root of the workspace that a directory belongs to.
    pub fn root(directory: &Path) -> Option<&Path> {
        directory.ancestors().find(|dir| dir.join(LIST).is_file())
    }

    /// The edits to the files of one package.
    pub fn edits(&self, package: &Path) -> Vec<Edit> {
        let of_package = self.breaks.iter().filter(|one| one.file.starts_with(package));
        of_package.map(Break::edit).collect()
    }
}

impl Break {
    fn edit(&self) -> Edit {
        Edit {
            name: self.name.clone(),
            file: self.file.clone(),
            find: self.find.clone(),
            replace: self.replace.clone(),
        }
    }

    /// Says that something is wrong with it.
    pub fn fault(&self, reason: &str) -> Fault {
        Fault { name: self.name.clone(), reason: reason.to_owned() }
    }

    /// The test target, and which of its tests.
    pub fn target(&self) -> Result<(Target, &[String]), Fault> {
        let words = self.tests.iter().map(String::as_str).collect::<Vec<_>>();
        let (package, test, at) = match words.as_slice() {
            ["-p", package, "--lib", ..] => (package, None, 3),
            ["-p", package, "--test", test, ..] => (package, Some((*test).to_owned()), 4),
            _ => return Err(self.fault("its tests must begin with -p PACKAGE --lib|--test NAME")),
        };
        let filters = self.tests.get(at..).unwrap_or_default();
        Ok((Target { package: (*package).to_owned(), test }, filters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: [&str; 2], tests: &str) -> String {
        let one = |name: &str| {
            format!(
                "[[break]]\nname = \"{name}\"\nfile = \"crates/a/src/lib.rs\"\nfind = \"x\"\n\
                 replace = \"\"\ntests = [{tests}]\n"
            )
        };
        names.map(one).concat()
    }

    #[test]
    fn the_target_and_the_tests_are_told_apart() {
        let read = List::parse(&list(["a", "b"], r#""-p", "p", "--test", "t", "one", "two""#));
        let breaks = read.unwrap().breaks;
        let (target, filters) = breaks[0].target().unwrap();
        assert_eq!(target, Target { package: "p".to_owned(), test: Some("t".to_owned()) });
        assert_eq!(filters, ["one", "two"]);
        let read = List::parse(&list(["a", "b"], r#""-p", "p", "--lib""#)).unwrap();
        let (target, filters) = read.breaks[1].target().unwrap();
        assert_eq!((target.test, filters.len()), (None, 0));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let twice = List::parse(&list(["a", "a"], r#""-p", "p", "--lib""#)).unwrap_err();
        assert_eq!(twice.to_string(), "break \"a\": there is another one of this name");
        assert!(List::parse(&list(["a", "b"], r#""--lib""#)).is_err());
        assert!(List::parse(&list(["a", "b"], r#""-p", "p", "--lib"]"#)).is_err());
    }

    #[test]
    fn a_package_has_its_own_edits() {
        let read = List::parse(&list(["a", "b"], r#""-p", "p", "--lib""#)).unwrap();
        assert_eq!(read.edits(Path::new("crates/a")).len(), 2);
        assert_eq!(read.edits(Path::new("crates/ab")).len(), 0);
    }
}
