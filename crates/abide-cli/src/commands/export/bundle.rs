//! `abide export --format bundle`: exports a session and its objects as one file.

use abide::{
    SessionId,
    bundle::{BundleError, ExportError},
};

use crate::command_output::status;
use crate::error::CommandError;
use crate::export_target::ExportTarget;
use crate::scoped_store::ScopedStore;

/// Writes the bundle of a session.
pub(super) fn export_bundle(
    opened: &ScopedStore,
    id: SessionId,
    mut to: ExportTarget,
) -> Result<(), CommandError> {
    if to.is_terminal() {
        return Err(CommandError::Usage(
            "refusing to write a bundle to a terminal; name a file with -o, or use a pipe"
                .to_owned(),
        ));
    }
    match opened.store.export_bundle(id, &mut to) {
        Ok(bundle) => {
            if let Some(parent) = bundle.parent {
                status(format_args!(
                    "It continues from event @{} of session {}, which is not in the bundle: that \
                    session must be imported first",
                    parent.seq, parent.session
                ));
            }
            to.finish()
        }
        Err(abide::Error::Export(ExportError::Bundle {
            source: BundleError::Write(error),
            ..
        })) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}
