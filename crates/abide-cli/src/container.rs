//! Warns about stores on a container's own disk, which is deleted with the container.

use std::path::Path;

use crate::command_output::warning;

/// Files that Docker and Podman put at the root of a container.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Warns, when the user's store is created or about to be, that it will be deleted with the
/// container.
pub(crate) fn warn_of_container(root: &Path) {
    let inside = MARKS.iter().any(|mark| Path::new(mark).exists())
        || std::env::var_os("container").is_some_and(|name| !name.is_empty());
    if inside && same_disk(root, Path::new("/")) {
        warning(format_args!(
            "your sessions will be lost with this container: {} is not on a volume. `abide init` \
            keeps the sessions of this project in the project; `ABIDE_STORE` or a volume for your \
            home keeps all",
            root.display()
        ));
    }
}

/// Are both on the same file system? A path that does not exist is where its parent is.
fn same_disk(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let disk = |path: &Path| {
        path.ancestors().find_map(|path| std::fs::metadata(path).ok()).map(|found| found.dev())
    };
    disk(one).is_some_and(|one| disk(other) == Some(one))
}
