//! The version of an installed agent, from its files: starting it may take seconds.

use std::fs;
use std::path::Path;

/// The version of the program at this path, if its files tell.
pub(super) fn agent_version(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    let name = real.file_name()?.to_str()?;
    if is_version(name) {
        return Some(name.to_owned());
    }
    // A package is in a directory of packages; what is above that is the package of somebody else.
    let packages = |above: &&Path| above.file_name().is_none_or(|name| name != "node_modules");
    let above: Vec<&Path> = real.ancestors().skip(1).take(5).take_while(packages).collect();
    let root = above.last()?.parent()?;
    if root.file_name()? != "node_modules" {
        return None;
    }
    above.into_iter().find_map(|directory| {
        let text = fs::read_to_string(directory.join("package.json")).ok()?;
        let package: serde_json::Value = serde_json::from_str(&text).ok()?;
        package.get("version")?.as_str().map(str::to_owned)
    })
}

/// Is it numbers with dots between them, and perhaps more behind?
fn is_version(name: &str) -> bool {
    let plain = name.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    plain.split('.').count() == 3 && plain.split('.').all(is_number)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_version_stands_in_the_package_or_in_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("lib/node_modules/agent/bin")).unwrap();
        fs::create_dir_all(at("bin")).unwrap();
        fs::write(at("lib/node_modules/agent/bin/agent.js"), "").unwrap();
        fs::write(at("lib/node_modules/agent/package.json"), r#"{"version":"1.18.33"}"#).unwrap();
        symlink("../lib/node_modules/agent/bin/agent.js", at("bin/agent")).unwrap();
        assert_eq!(agent_version(&at("bin/agent")).as_deref(), Some("1.18.33"));
        fs::write(at("lib/2.1.325"), "").unwrap();
        symlink("../lib/2.1.325", at("bin/other")).unwrap();
        assert_eq!(agent_version(&at("bin/other")).as_deref(), Some("2.1.325"));
        fs::write(at("bin/third"), "").unwrap();
        // The package of a project is no agent's.
        fs::write(at("package.json"), r#"{"version":"9.9.9"}"#).unwrap();
        assert_eq!(agent_version(&at("bin/third")), None);
    }
}
