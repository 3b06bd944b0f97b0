//! The directory that the wrapper and the runner share: `sabotage` below the target directory.
//!
//! It holds both programs; `edits/PACKAGE.json`, the edits to each package; and `trees/PACKAGE`, a
//! mirror of the workspace with the edits made ([`Mirror`]). Cargo compiles a package anew when its
//! file of edits changes, and only that one.

use std::env::JoinPathsError;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

use crate::list::{Edit, List};
use crate::mirror::{Mirror, write};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The directory that the wrapper and the runner share.
#[derive(Debug)]
pub struct Workshop {
    dir: PathBuf,
}

/// The content of a file of edits.
#[derive(Serialize, Deserialize)]
struct Order {
    /// Which code makes the edits: when that changes, all packages with edits are compiled anew.
    made_by: Option<String>,
    edits: Vec<Edit>,
}

impl Order {
    fn new(edits: Vec<Edit>) -> Self {
        let mut hasher = DefaultHasher::new();
        include_str!("instrument.rs").hash(&mut hasher);
        let made_by = (!edits.is_empty()).then(|| format!("{:016x}", hasher.finish()));
        Self { made_by, edits }
    }
}

impl Workshop {
    /// The directory that the running program is in.
    pub fn of_this_program() -> io::Result<Self> {
        let program = std::env::current_exe()?.canonicalize()?;
        let dir = program.parent().unwrap_or(&program).to_owned();
        Ok(Self { dir })
    }

    /// The workshop in a directory.
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The wrapper.
    pub fn wrapper(&self) -> PathBuf {
        self.dir.join(Self::WRAPPER)
    }

    /// The name of the wrapper, under which cargo finds it on the path. Cargo makes what it is told a
    /// part of the hash of each crate: with a directory in it, the same sources would be compiled
    /// differently elsewhere.
    pub const WRAPPER: &str = "abide-sabotage-rustc";

    /// The path on which programs are searched for, with the wrapper's directory first.
    pub fn path_variable(&self) -> Result<OsString, JoinPathsError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::join_paths(std::iter::once(self.dir.clone()).chain(std::env::split_paths(&path)))
    }

    /// The file of the edits to a package.
    pub fn edits_file(&self, package: &str) -> PathBuf {
        self.dir.join("edits").join(package).with_extension("json")
    }

    /// Writes the edits to each package of the workspace where they have changed.
    pub fn write_edits(&self, root: &Path, list: &List) -> Result<(), Failure> {
        // Of compilers that were killed.
        match fs::remove_dir_all(self.dir.join("scratch")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut edits = 0;
        for entry in fs::read_dir(root.join("crates"))? {
            let name = entry?.file_name();
            let name = name.to_str().ok_or("a package whose name is no text")?;
            let of_package = list.edits(&Path::new("crates").join(name));
            edits += of_package.len();
            write(&self.edits_file(name), &serde_json::to_string_pretty(&Order::new(of_package))?)?;
        }
        if edits != list.breaks.len() {
            return Err("a break is of a file that is in no package below crates/".into());
        }
        Ok(())
    }

    /// Makes a directory for this process alone.
    pub fn scratch(&self) -> io::Result<PathBuf> {
        let dir = self.dir.join("scratch").join(std::process::id().to_string());
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// Reads the edits to a package.
    pub fn edits(&self, package: &str) -> Result<Vec<Edit>, Failure> {
        let path = self.edits_file(package);
        let text = fs::read_to_string(&path).map_err(|error| {
            format!("{}: {error}; run scripts/sabotage --wrapper", path.display())
        })?;
        let order: Order = serde_json::from_str(&text)?;
        Ok(order.edits)
    }

    /// The mirror of a package.
    pub fn mirror(&self, root: &Path, package: &str) -> Mirror {
        Mirror::new(root, package, &self.dir.join("trees").join(package))
    }
}
