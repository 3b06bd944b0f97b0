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
            "a rewind is running or was interrupted, and the files may be partly restored: `abide \
            rewind --finish` finishes an interrupted rewind, `abide undo` undoes it",
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
                "Finished restoring the files of an interrupted rewind: {} created, {} changed, {} \
                deleted",
                files.created, files.changed, files.deleted
            ));
            report_files_left(files, "abide undo")
        }
        UnfinishedRewind::Left { seq, why } => {
            warning(format_args!(
                "the rewind at event {seq} was interrupted, and its files may be partly restored: \
                {why}; `abide rewind --finish` shows what is left and finishes it, `abide undo` \
                undoes it",
                why = escape::text(&why)
            ));
            Ok(())
        }
    }
}
