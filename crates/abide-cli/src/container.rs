//! A container's own disk goes with the container, and a person's store on it too.

use std::path::Path;

use crate::output::warning;

/// What tells a container: files that Docker and Podman put at the root.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

/// Warns, when the person's store is made, that it goes with the container that it is in.
pub(crate) fn warn_where_it_goes(root: &Path) {
    let inside = MARKS.iter().any(|mark| Path::new(mark).exists())
        || std::env::var_os("container").is_some_and(|name| !name.is_empty());
    if inside && same_disk(root, Path::new("/")) {
        warning(format_args!(
            "this is a container, and your sessions go with it: {} is not on a volume. `abide init` \
             keeps those of this project in it; `ABIDE_STORE` or a volume for your home keeps all",
            root.display()
        ));
    }
}

/// Are both on the same file system?
fn same_disk(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let disk = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    disk(one).is_some_and(|one| disk(other) == Some(one))
}
