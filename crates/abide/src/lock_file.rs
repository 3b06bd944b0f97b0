//! Lock files: which packages a project resolved to. Only what a snapshot holds is read; what is too
//! large or malformed is noted, and never an error.

use std::collections::BTreeMap;

use abide_model::{DependencyResolution, Objects};
use abide_workspace::{ChangeKind, ChangedPath, EntryKind, read_content};
use serde::Deserialize;

/// The largest lock file that is read.
const FILE: u64 = 8 << 20;
/// The most packages recorded of a lock file, and the most bytes of their names and versions.
const PACKAGES: usize = 10_000;
const PACKAGE_BYTES: usize = 512 << 10;
/// The most bytes of the versions of one package.
const VERSIONS: usize = 256;
/// The most lock files recorded at a checkpoint.
const FILES: usize = 32;

/// The kind of a lock file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockFormat {
    Cargo,
    Npm,
    Pnpm,
    Yarn,
    Uv,
    Poetry,
    Go,
}

impl LockFormat {
    fn of_path(path: &[u8]) -> Option<Self> {
        match path.rsplit(|byte| *byte == b'/').next()? {
            b"Cargo.lock" => Some(Self::Cargo),
            b"package-lock.json" => Some(Self::Npm),
            b"pnpm-lock.yaml" => Some(Self::Pnpm),
            b"yarn.lock" => Some(Self::Yarn),
            b"uv.lock" => Some(Self::Uv),
            b"poetry.lock" => Some(Self::Poetry),
            b"go.sum" => Some(Self::Go),
            _ => None,
        }
    }

    const fn manager(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Uv => "uv",
            Self::Poetry => "poetry",
            Self::Go => "go",
        }
    }

    fn read(self, text: &str) -> Result<LockedPackages, String> {
        match self {
            Self::Cargo | Self::Uv | Self::Poetry => toml_packages(text),
            Self::Npm => npm_packages(text),
            Self::Pnpm => pnpm_packages(text),
            Self::Yarn => Ok(yarn_packages(text)),
            Self::Go => go_packages(text),
        }
    }
}

/// What changed lock files resolve to, in the order of their paths.
pub(crate) fn changed_dependencies(
    objects: &dyn Objects,
    changes: &[ChangedPath],
) -> Vec<DependencyResolution> {
    let changed = changes.iter().filter(|changed| changed.change != ChangeKind::ModeChanged);
    changed.filter_map(|changed| lock_resolution(objects, changed)).take(FILES).collect()
}

fn lock_resolution(objects: &dyn Objects, changed: &ChangedPath) -> Option<DependencyResolution> {
    let format = LockFormat::of_path(&changed.path)?;
    let mut resolved = DependencyResolution {
        manager: format.manager().to_owned(),
        lockfile: Some(String::from_utf8_lossy(&changed.path).into_owned()),
        ..DependencyResolution::default()
    };
    let read = match &changed.new {
        None => Err("it is not in the snapshot: deleted or left out".to_owned()),
        Some(entry) if !matches!(entry.kind, EntryKind::File | EntryKind::Large) => return None,
        Some(entry) if entry.size > FILE => Err(format!("it has {} bytes", entry.size)),
        Some(entry) => read_content(objects, entry)
            .map_err(|error| error.to_string())
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()))
            .and_then(|text| format.read(&text)),
    };
    match read {
        Ok(LockedPackages { packages, left_out, .. }) => {
            resolved.packages = packages;
            resolved.left_out = left_out;
        }
        Err(note) => resolved.note = Some(note),
    }
    Some(resolved)
}

/// Packages and their versions, up to a size.
#[derive(Debug, Default)]
struct LockedPackages {
    packages: BTreeMap<String, String>,
    left_out: u64,
    bytes: usize,
}

impl LockedPackages {
    fn add(&mut self, name: &str, version: &str) {
        if let Some(known) = self.packages.get_mut(name) {
            if known.len() + version.len() > VERSIONS {
                self.left_out += 1;
            } else if known.split(", ").all(|one| one != version) {
                known.push_str(", ");
                known.push_str(version);
            }
            return;
        }
        let bytes = name.len() + version.len();
        if self.packages.len() >= PACKAGES || self.bytes + bytes > PACKAGE_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        self.packages.insert(name.to_owned(), version.to_owned());
    }
}

fn malformed_note(why: impl std::fmt::Display) -> String {
    let why: String = why.to_string().chars().take(200).collect();
    format!("it is malformed: {why}")
}

/// A table of packages, as cargo, uv and poetry write it.
fn toml_packages(text: &str) -> Result<LockedPackages, String> {
    #[derive(Deserialize)]
    struct TomlLock {
        #[serde(default)]
        package: Vec<TomlPackage>,
    }
    #[derive(Deserialize)]
    struct TomlPackage {
        name: String,
        // A package of a workspace may have none.
        version: Option<String>,
    }
    let lock: TomlLock = toml::from_str(text).map_err(|error| malformed_note(error.message()))?;
    let mut packages = LockedPackages::default();
    for package in lock.package {
        packages.add(&package.name, package.version.as_deref().unwrap_or_default());
    }
    Ok(packages)
}

fn npm_packages(text: &str) -> Result<LockedPackages, String> {
    #[derive(Deserialize)]
    struct NpmLock {
        #[serde(default)]
        packages: BTreeMap<String, NpmPackage>,
        #[serde(default)]
        dependencies: BTreeMap<String, NpmPackage>,
    }
    #[derive(Deserialize)]
    struct NpmPackage {
        version: Option<String>,
    }
    let lock: NpmLock = serde_json::from_str(text).map_err(malformed_note)?;
    let mut packages = LockedPackages::default();
    for (path, package) in &lock.packages {
        // The others are the project itself and its workspaces.
        if let (Some((_, name)), Some(version)) =
            (path.rsplit_once("node_modules/"), &package.version)
        {
            packages.add(name, version);
        }
    }
    // Before version 2 there were only these.
    if lock.packages.is_empty() {
        for (name, package) in &lock.dependencies {
            packages.add(name, package.version.as_deref().unwrap_or_default());
        }
    }
    Ok(packages)
}

/// The keys of `packages:`, as `/name@1.0.0(peer)` or, in old files, `/name/1.0.0`.
fn pnpm_packages(text: &str) -> Result<LockedPackages, String> {
    let mut packages = LockedPackages::default();
    let mut is_within = false;
    for line in text.lines() {
        if !line.starts_with([' ', '#']) && !line.is_empty() {
            if !line.contains(':') && line != "---" {
                return Err(malformed_note(format_args!("`{line}`")));
            }
            is_within = line == "packages:";
            continue;
        }
        let Some(key) = line.strip_prefix("  ").filter(|_| is_within) else { continue };
        let Some(key) = key.strip_suffix(':').filter(|key| !key.starts_with(' ')) else { continue };
        let key = key.trim_matches(['\'', '"']).trim_start_matches('/');
        let key = key.split('(').next().unwrap_or(key);
        let parts = key.rsplit_once('@').filter(|(name, _)| !name.is_empty());
        if let Some((name, version)) = parts.or_else(|| key.rsplit_once('/')) {
            packages.add(name, version);
        }
    }
    Ok(packages)
}

/// Blocks under `name@range, name@range:`, each with a version.
fn yarn_packages(text: &str) -> LockedPackages {
    let mut packages = LockedPackages::default();
    let mut name = None;
    for line in text.lines() {
        if !line.starts_with([' ', '#']) {
            let first = line.trim_end_matches(':').split(',').next().unwrap_or_default();
            let first = first.trim_matches('"');
            // The first letter of `@scope/name` is no separator.
            let at = first.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
            name = at.and_then(|at| first.get(..at));
        } else if let Some(version) = line.strip_prefix("  version")
            && let Some(name) = name.take()
        {
            packages.add(name, version.trim_matches([':', ' ', '"']));
        }
    }
    packages
}

/// Lines `module version hash`. Those of a `go.mod` alone were looked at, and not chosen.
fn go_packages(text: &str) -> Result<LockedPackages, String> {
    let mut packages = LockedPackages::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(version), Some(_), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(malformed_note(format_args!("`{line}`")));
        };
        if !version.ends_with("/go.mod") {
            packages.add(name, version);
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> String {
        let read = LockFormat::of_path(path.as_bytes()).unwrap().read(text);
        match read {
            Err(note) => note,
            Ok(found) => {
                let all = found.packages.iter().map(|(name, version)| format!("{name} {version}"));
                all.collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn packages_and_versions_are_read_from_each_kind() {
        let cargo = r#"# This file is automatically @generated by Cargo.
version = 4

[[package]]
name = "syn"
version = "1.0.109"
source = "registry+https://github.com/rust-lang/crates.io-index"

[[package]]
name = "syn"
version = "2.0.98"
dependencies = ["proc-macro2"]
"#;
        assert_eq!(told("a/Cargo.lock", cargo), "syn 1.0.109, 2.0.98");
        let uv = "version = 1\n[[package]]\nname = \"app\"\nsource = { virtual = \".\" }\n\n[[package]]\nname = \"idna\"\nversion = \"3.10\"\n";
        assert_eq!(told("uv.lock", uv), "app ; idna 3.10");
        assert_eq!(
            told("poetry.lock", "[[package]]\nname = \"idna\"\nversion = \"3.10\"\n"),
            "idna 3.10"
        );
        let npm = r#"{"name":"x","lockfileVersion":3,"packages":{"":{"name":"x","version":"1.0.0"},
            "node_modules/a":{"version":"1.2.3"},"node_modules/a/node_modules/@s/b":{"version":"2.0.0"},
            "packages/own":{"version":"9.9.9"},"node_modules/own":{"link":true}}}"#;
        assert_eq!(told("package-lock.json", npm), "@s/b 2.0.0; a 1.2.3");
        let old = r#"{"lockfileVersion":1,"dependencies":{"a":{"version":"1.2.3"}}}"#;
        assert_eq!(told("package-lock.json", old), "a 1.2.3");
        let pnpm = "lockfileVersion: '9.0'\n\nimporters:\n\n  .:\n    dependencies:\n\npackages:\n\n  '@s/b@2.0.0':\n    resolution: {integrity: x}\n\n  c@1.0.0(d@2.0.0):\n    engines: {}\n\n  /old/3.0.0:\n\nsnapshots:\n\n  c@1.0.0: {}\n";
        assert_eq!(told("pnpm-lock.yaml", pnpm), "@s/b 2.0.0; c 1.0.0; old 3.0.0");
        let yarn = "# yarn lockfile v1\n\n\n\"@s/b@^2.0.0\", \"@s/b@^2.1.0\":\n  version \"2.1.4\"\n  resolved \"x\"\n  dependencies:\n    version \"1\"\n\nc@^1.0.0:\n  version \"1.0.1\"\n";
        assert_eq!(told("yarn.lock", yarn), "@s/b 2.1.4; c 1.0.1");
        let berry = "__metadata:\n  version: 8\n\n\"c@npm:^1.0.0\":\n  version: 1.0.1\n  resolution: \"c@npm:1.0.1\"\n";
        assert_eq!(told("yarn.lock", berry), "c 1.0.1");
        let go = "golang.org/x/text v0.3.0/go.mod h1:a=\ngolang.org/x/text v0.3.7 h1:b=\ngolang.org/x/text v0.3.7/go.mod h1:c=\n";
        assert_eq!(told("go.sum", go), "golang.org/x/text v0.3.7");
    }

    #[test]
    fn a_malformed_file_is_noted() {
        for (path, text) in [
            ("Cargo.lock", "<<<<<<< HEAD\n[[package]]\n"),
            ("package-lock.json", "{\"packages\":"),
            ("go.sum", "one two\n"),
            ("pnpm-lock.yaml", "<<<<<<< HEAD\n"),
        ] {
            let told = told(path, text);
            assert!(told.starts_with("it is malformed: "), "{path}: {told}");
        }
        assert_eq!(LockFormat::of_path(b"src/Cargo.lock.rs"), None);
    }

    #[test]
    fn of_very_many_packages_the_first_are_kept_and_the_rest_counted() {
        let mut packages = LockedPackages::default();
        for number in 0..PACKAGES + 5 {
            packages.add(&format!("p{number}"), "1.0.0");
        }
        assert_eq!((packages.packages.len(), packages.left_out), (PACKAGES, 5));
        let mut packages = LockedPackages::default();
        packages.add("a", &"1".repeat(PACKAGE_BYTES));
        assert_eq!((packages.packages.len(), packages.left_out), (0, 1));
    }
}
