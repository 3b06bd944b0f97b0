//! Changes as a patch: through the pager on a terminal, byte for byte elsewhere.

use abide::backend::Objects;
use abide::workspace::{ChangedPath, unified};
use abide_transcript::escape;

use crate::command_context::CommandContext;
use crate::command_output::CommandOutput;
use crate::error::CommandError;
use crate::pager::PagedOutput;

/// Context lines around a change.
const CONTEXT: usize = 3;

/// Writes changes as a patch.
pub(crate) fn write_patch(
    changed: &[ChangedPath],
    objects: &dyn Objects,
    surroundings: &CommandContext,
) -> Result<(), CommandError> {
    let mut out = CommandOutput::stdout();
    if !out.is_terminal() {
        // Byte for byte, so that the patch applies.
        for changed in changed {
            let text = unified(objects, changed, CONTEXT).map_err(abide::Error::from)?.text;
            out.bytes(&text)?;
        }
        return out.flush();
    }
    let mut paged = PagedOutput::start(surroundings.pager.as_deref());
    for changed in changed {
        let text = unified(objects, changed, CONTEXT).map_err(abide::Error::from)?.text;
        for line in String::from_utf8_lossy(&text).lines() {
            let line = coloured_patch_line(&escape::text(line), surroundings.colours);
            if !paged.write(&format!("{line}\n"))? {
                return paged.finish();
            }
        }
    }
    paged.finish()
}

fn coloured_patch_line(line: &str, colours: bool) -> String {
    let code = match line.as_bytes().first() {
        _ if !colours => None,
        Some(b'+') if !line.starts_with("+++") => Some("32"),
        Some(b'-') if !line.starts_with("---") => Some("31"),
        Some(b'@') => Some("36"),
        Some(b'd') if line.starts_with("diff ") => Some("1"),
        _ => None,
    };
    code.map_or_else(|| line.to_owned(), |code| format!("\x1b[{code}m{line}\x1b[0m"))
}
