//! Recreates directories that a plan expects and that are gone.
//!
//! When an interrupted plan is resumed after a power failure, directories that existed when it was
//! made may be missing: their creator need not have synced them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use abide_model::{ObjectHash, Objects};

use crate::EntryKind;
use crate::compare::read::ReadError;
use crate::compare::walk::split_walked_path;
use crate::restore::restore_plan::{RestorePlan, plan_all};

/// Adds a step for each missing directory of the target that leads to something the plan writes.
pub(crate) fn make_ways(
    root: &Path,
    objects: &dyn Objects,
    target: ObjectHash,
    plan: &mut RestorePlan,
) -> Result<(), ReadError> {
    let stepped: BTreeSet<&[u8]> = plan.steps.iter().map(|step| step.path.as_slice()).collect();
    let mut missing: BTreeSet<Vec<u8>> = BTreeSet::new();
    for step in plan.steps.iter().filter(|step| step.entry.is_some()) {
        let mut way = split_walked_path(&step.path).0;
        while !way.is_empty() && !stepped.contains(way) && !missing.contains(way) {
            let seen = root.join(OsStr::from_bytes(way)).symlink_metadata();
            if seen.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                missing.insert(way.to_vec());
            }
            way = split_walked_path(way).0;
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let ways = plan_all(objects, target)?.steps.into_iter().filter(|step| {
        let directory = step.entry.as_ref().is_some_and(|e| e.kind == EntryKind::Directory);
        directory && missing.contains(&step.path)
    });
    plan.steps.extend(ways);
    plan.steps.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}
