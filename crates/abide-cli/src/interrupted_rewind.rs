//! A rewind that was interrupted: finished if it is this machine's own, else reported.

use abide::{Session, checkpoint::UnfinishedRewind};
use abide_transcript::escape;

use crate::command_output::{status, warning};
use crate::error::CommandError;
use crate::rewind_report::report_files_left;

/// Warns if a rewind was interrupted.
pub(crate) fn tell_interrupted_rewind(session: &Session) -> Result<(), CommandError> {
    if session.core()?.restoring.is_some() {
        warning(
            "a rewind is running or was cut off, and the files may be half-way: `abide rewind --finish` \
             finishes one that was cut off, `abide undo` takes it back",
        );
    }
    Ok(())
}

/// Finishes an interrupted rewind if this machine started it, and says so. Any other one is only
/// reported.
pub(crate) fn finish_rewind(session: &Session) -> Result<(), CommandError> {
    let watch = abide::checkpoint::RewindWatch::default();
    match session.finish_rewind(&watch)? {
        UnfinishedRewind::None => Ok(()),
        UnfinishedRewind::Finished(done) => {
            let files = &done.files;
            status(format_args!(
                "A rewind was cut off; its files are put back now: {} created, {} changed, {} deleted",
                files.created, files.changed, files.deleted
            ));
            report_files_left(files, "abide undo")
        }
        UnfinishedRewind::Left { seq, why } => {
            warning(format_args!(
                "the rewind at event {seq} was cut off, and its files may be half-way: {why}; \
                 `abide rewind --finish` shows what is left and finishes it, `abide undo` takes it back",
                why = escape::text(&why)
            ));
            Ok(())
        }
    }
}
