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
/// The most bytes of a name, and of the versions of one package.
const NAME: usize = 256;
/// The most lock files recorded at a checkpoint, and the most bytes of names and versions in them.
const FILES: usize = 32;
const ALL_BYTES: usize = 2 << 20;

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
    GoModule,
    Bundler,
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
            b"go.mod" => Some(Self::GoModule),
            b"Gemfile.lock" => Some(Self::Bundler),
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
            Self::Go | Self::GoModule => "go",
            Self::Bundler => "bundler",
        }
    }

    /// Reads the packages, up to so many bytes.
    fn read(self, text: &str, room: usize) -> Result<LockedPackages, String> {
        // An unfinished merge has two versions of everything.
        if let Some(line) = text.lines().find(|line| line.starts_with("<<<<<<< ")) {
            return Err(malformed_note(format_args!("`{line}`")));
        }
        let mut packages = LockedPackages::new(room);
        match self {
            Self::Cargo | Self::Uv | Self::Poetry => toml_packages(text, &mut packages)?,
            Self::Npm => npm_packages(text, &mut packages)?,
            Self::Pnpm => pnpm_packages(text, &mut packages)?,
            Self::Yarn => yarn_packages(text, &mut packages),
            Self::Go => go_packages(text, &mut packages)?,
            Self::GoModule => go_module_packages(text, &mut packages),
            Self::Bundler => bundler_packages(text, &mut packages),
        }
        Ok(packages)
    }
}

/// What changed lock files resolve to, in the order of their paths.
pub(crate) fn changed_dependencies(
    objects: &dyn Objects,
    changes: &[ChangedPath],
) -> Vec<DependencyResolution> {
    let changed = changes.iter().filter(|changed| changed.change != ChangeKind::ModeChanged);
    let mut room = ALL_BYTES;
    let mut resolved = Vec::new();
    for changed in changed {
        let Some(format) = LockFormat::of_path(&changed.path) else { continue };
        if resolved.len() == FILES {
            break;
        }
        let Some(found) = lock_resolution(objects, changed, format, room) else { continue };
        let bytes = found.packages.iter().map(|(name, version)| name.len() + version.len());
        room = room.saturating_sub(bytes.sum());
        resolved.push(found);
    }
    resolved
}

fn lock_resolution(
    objects: &dyn Objects,
    changed: &ChangedPath,
    format: LockFormat,
    room: usize,
) -> Option<DependencyResolution> {
    let mut resolved = DependencyResolution {
        manager: format.manager().to_owned(),
        lockfile: Some(String::from_utf8_lossy(&changed.path).into_owned()),
        ..DependencyResolution::default()
    };
    let read = match &changed.new {
        None => Err("deleted, or not in the snapshot".to_owned()),
        Some(entry) if !matches!(entry.kind, EntryKind::File | EntryKind::Large) => return None,
        Some(entry) if entry.size > FILE => Err(format!("too large: {} bytes", entry.size)),
        Some(entry) => read_content(objects, entry)
            .map_err(|error| error.to_string())
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned()))
            .and_then(|text| format.read(&text, room)),
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
    /// How many more bytes there may be.
    room: usize,
}

impl LockedPackages {
    fn new(room: usize) -> Self {
        Self { room: room.min(PACKAGE_BYTES), ..Self::default() }
    }

    fn add(&mut self, name: &str, version: &str) {
        let is_full = self.packages.len() >= PACKAGES;
        let known = self.packages.get_mut(name);
        if known.as_ref().is_some_and(|known| known.split(", ").any(|one| one == version)) {
            return;
        }
        // Control characters are no part of a name, and make much of few bytes.
        let is_odd = |text: &str| text.len() > NAME || text.contains(char::is_control);
        let separator = if known.is_some() { ", " } else { name };
        let bytes = separator.len() + version.len();
        if is_odd(name) || is_odd(version) || bytes > self.room {
            self.left_out += 1;
            return;
        }
        match known {
            Some(known) if known.len() + bytes > NAME => self.left_out += 1,
            Some(known) => {
                known.push_str(", ");
                known.push_str(version);
                self.room -= bytes;
            }
            None if is_full => self.left_out += 1,
            None => {
                self.packages.insert(name.to_owned(), version.to_owned());
                self.room -= bytes;
            }
        }
    }
}

fn malformed_note(why: impl std::fmt::Display) -> String {
    let why: String = why.to_string().chars().take(200).collect();
    format!("malformed: {why}")
}

/// A table of packages, as cargo, uv and poetry write it.
fn toml_packages(text: &str, packages: &mut LockedPackages) -> Result<(), String> {
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
    for package in lock.package {
        packages.add(&package.name, package.version.as_deref().unwrap_or_default());
    }
    Ok(())
}

fn npm_packages(text: &str, packages: &mut LockedPackages) -> Result<(), String> {
    #[derive(Deserialize)]
    struct NpmLock {
        #[serde(default)]
        packages: BTreeMap<String, NpmPackage>,
        #[serde(default)]
        dependencies: BTreeMap<String, NpmDependency>,
    }
    #[derive(Deserialize)]
    struct NpmPackage {
        version: Option<String>,
    }
    #[derive(Deserialize)]
    struct NpmDependency {
        version: Option<String>,
        #[serde(default)]
        dependencies: BTreeMap<String, Self>,
    }
    fn add_dependencies(
        dependencies: &BTreeMap<String, NpmDependency>,
        packages: &mut LockedPackages,
    ) {
        for (name, package) in dependencies {
            packages.add(name, package.version.as_deref().unwrap_or_default());
            add_dependencies(&package.dependencies, packages);
        }
    }
    let lock: NpmLock = serde_json::from_str(text).map_err(malformed_note)?;
    for (path, package) in &lock.packages {
        // The others are the project itself and its workspaces.
        if let (Some((_, name)), Some(version)) =
            (path.rsplit_once("node_modules/"), &package.version)
        {
            packages.add(name, version);
        }
    }
    // Before version 2 there were only these. The parser bounds their depth.
    if lock.packages.is_empty() {
        add_dependencies(&lock.dependencies, packages);
    }
    Ok(())
}

/// The keys of `packages:`, as `name@1.0.0(peer)` or, in old files, `/name/1.0.0_peer`.
fn pnpm_packages(text: &str, packages: &mut LockedPackages) -> Result<(), String> {
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
        // A name has a slash only behind its scope.
        let slashes = usize::from(key.starts_with('@'));
        let new = name_and_rest(key).filter(|(name, _)| name.matches('/').count() == slashes);
        let old = || {
            let (at, _) = key.match_indices('/').nth(slashes)?;
            let version = key.get(at + 1..)?;
            Some((key.get(..at)?, version.split('_').next().unwrap_or(version)))
        };
        if let Some((name, version)) = new.or_else(old) {
            packages.add(name, version);
        }
    }
    Ok(())
}

/// The parts of `name@rest`. The first letter of `@scope/name` is no separator.
fn name_and_rest(text: &str) -> Option<(&str, &str)> {
    let (at, _) = text.char_indices().skip(1).find(|(_, c)| *c == '@')?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Blocks under `name@range, name@range:`, each with a version.
fn yarn_packages(text: &str, packages: &mut LockedPackages) {
    let mut name = None;
    for line in text.lines() {
        if !line.starts_with([' ', '#']) {
            let first = line.trim_end_matches(':').split(',').next().unwrap_or_default();
            name = name_and_rest(first.trim_matches('"')).map(|(name, _)| name);
        } else if let Some(version) = line.strip_prefix("  version")
            && let Some(name) = name.take()
        {
            packages.add(name, version.trim_matches([':', ' ', '"']));
        }
    }
}

/// Lines `module version hash`. Those of a `go.mod` alone were looked at, and not chosen.
fn go_packages(text: &str, packages: &mut LockedPackages) -> Result<(), String> {
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
    Ok(())
}

/// The modules under `require`: `module version`, one in a line or several in parentheses.
fn go_module_packages(text: &str, packages: &mut LockedPackages) {
    let mut is_within = false;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let required = line.strip_prefix("require").map(str::trim_start);
        match required {
            Some("(") => is_within = true,
            _ if line == ")" => is_within = false,
            _ => {
                let mut words = required.or(is_within.then_some(line)).unwrap_or("").split(' ');
                if let (Some(name), Some(version), None) =
                    (words.next(), words.next(), words.next())
                {
                    packages.add(name.trim_matches('"'), version);
                }
            }
        }
    }
}

/// Lines `    name (version)` under `specs:`; what a gem depends on is indented further.
fn bundler_packages(text: &str, packages: &mut LockedPackages) {
    for line in text.lines() {
        let Some(spec) = line.strip_prefix("    ").filter(|spec| !spec.starts_with(' ')) else {
            continue;
        };
        if let Some((name, version)) = spec.split_once(" (") {
            packages.add(name, version.trim_end_matches(')'));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> String {
        let read = LockFormat::of_path(path.as_bytes()).unwrap().read(text, PACKAGE_BYTES);
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
        let old = r#"{"lockfileVersion":1,"dependencies":{"a":{"version":"1.2.3",
            "requires":{"b":"1"},"dependencies":{"b":{"version":"1.0.0"}}}}}"#;
        assert_eq!(told("package-lock.json", old), "a 1.2.3; b 1.0.0");
        let pnpm = "lockfileVersion: '9.0'\n\nimporters:\n\n  .:\n    dependencies:\n\npackages:\n\n  '@s/b@2.0.0':\n    resolution: {integrity: x}\n\n  c@1.0.0(d@2.0.0):\n    engines: {}\n\n  /old/3.0.0_c@1.0.0:\n\n  g@git+ssh://git@host/g.git#1:\n\nsnapshots:\n\n  c@1.0.0: {}\n";
        assert_eq!(
            told("pnpm-lock.yaml", pnpm),
            "@s/b 2.0.0; c 1.0.0; g git+ssh://git@host/g.git#1; old 3.0.0"
        );
        let yarn = "# yarn lockfile v1\n\n\n\"@s/b@^2.0.0\", \"@s/b@^2.1.0\":\n  version \"2.1.4\"\n  resolved \"x\"\n  dependencies:\n    version \"1\"\n\nc@^1.0.0:\n  version \"1.0.1\"\n";
        assert_eq!(told("yarn.lock", yarn), "@s/b 2.1.4; c 1.0.1");
        let berry = "__metadata:\n  version: 8\n\n\"c@npm:^1.0.0\":\n  version: 1.0.1\n  resolution: \"c@npm:1.0.1\"\n";
        assert_eq!(told("yarn.lock", berry), "c 1.0.1");
        let go = "golang.org/x/text v0.3.0/go.mod h1:a=\ngolang.org/x/text v0.3.7 h1:b=\ngolang.org/x/text v0.3.7/go.mod h1:c=\n";
        assert_eq!(told("go.sum", go), "golang.org/x/text v0.3.7");
        let module = "module x\n\ngo 1.22\n\nrequire a.b/c v1.0.0 // indirect\n\nrequire (\n\td.e/f v2.0.0+incompatible\n)\nreplace a.b/c => ../c\n";
        assert_eq!(told("go.mod", module), "a.b/c v1.0.0; d.e/f v2.0.0+incompatible");
        let gems = "GEM\n  remote: https://rubygems.org/\n  specs:\n    rack (3.0.8)\n    rails (7.1.0)\n      rack (>= 2.2.4)\n\nPLATFORMS\n  ruby\n\nDEPENDENCIES\n  rails (~> 7.1)\n\nBUNDLED WITH\n   2.4.10\n";
        assert_eq!(told("Gemfile.lock", gems), "rack 3.0.8; rails 7.1.0");
    }

    #[test]
    fn a_malformed_file_is_noted() {
        for (path, text) in [
            ("Cargo.lock", "<<<<<<< HEAD\n[[package]]\n"),
            ("package-lock.json", "{\"packages\":"),
            ("go.sum", "one two\n"),
            ("pnpm-lock.yaml", "packages\n"),
            ("yarn.lock", "<<<<<<< HEAD\nc@^1.0.0:\n  version \"1.0.1\"\n"),
        ] {
            let told = told(path, text);
            assert!(told.starts_with("malformed: "), "{path}: {told}");
        }
        assert_eq!(LockFormat::of_path(b"src/Cargo.lock.rs"), None);
    }

    #[test]
    fn of_very_many_packages_the_first_are_kept_and_the_rest_counted() {
        let mut packages = LockedPackages::new(ALL_BYTES);
        for number in 0..PACKAGES + 5 {
            packages.add(&format!("p{number}"), "1.0.0");
        }
        assert_eq!((packages.packages.len(), packages.left_out), (PACKAGES, 5));
        // Versions count as names do.
        let mut packages = LockedPackages::new(ALL_BYTES);
        for number in 0..2 * PACKAGES {
            packages.add(&format!("p{}", number % 3000), &format!("{number}.{}", "0".repeat(50)));
        }
        let all = packages.packages.iter();
        let bytes: usize = all.map(|(name, version)| name.len() + version.len()).sum();
        assert!(bytes <= PACKAGE_BYTES && packages.left_out > 0, "{bytes}");
        let mut packages = LockedPackages::new(ALL_BYTES);
        packages.add("a", &"1".repeat(NAME + 1));
        packages.add("\u{1b}[2Ja", "1");
        assert_eq!((packages.packages.len(), packages.left_out), (0, 2));
    }
}
