//! The cleanup at the start of a writing command, and how any cleanup is told.

use abide::{
    SessionId,
    maintenance::{ByteSize, CleanupOutcome, ClockJump, DailyCleanup, SessionRemoval},
};

use crate::command_output::{status, warning};
use crate::noun_count::noun_count;
use crate::scoped_store::ScopedStore;

/// The cleanup at the start of a writing command. It never fails the command.
pub(crate) fn run_daily_cleanup(opened: &ScopedStore, about: SessionId) {
    let Some(files) = opened.store.as_files() else { return };
    match files.cleaner().clean_up_daily(about) {
        Ok(DailyCleanup::NotDue) => {}
        Ok(DailyCleanup::Doubted(jump)) => {
            warning(format_args!(
                "no cleanup: {}; `abide cleanup` asks, and `abide cleanup --yes --trust-clock` \
                proceeds",
                clock_jump_text(jump)
            ));
        }
        Ok(DailyCleanup::Cleaned(cleaned)) => {
            for note in &cleaned.notes {
                warning(note);
            }
            for session in &cleaned.sessions {
                status(format_args!(
                    "Removed {}: {}",
                    removed_by_cleanup_name(session),
                    session.reason
                ));
            }
            if !cleaned.sessions.is_empty() || cleaned.notes.is_empty() {
                status(removed_by_cleanup(&cleaned));
            }
        }
        Err(error) => warning(format_args!("no cleanup: {error}")),
    }
}

/// What is wrong with the clock.
pub(crate) fn clock_jump_text(jump: ClockJump) -> String {
    let days = (jump.now.as_millis() - jump.seen.as_millis()) / 86_400_000;
    format!(
        "the clock says {}, {} after the store was last seen ({}); it may have jumped",
        jump.now,
        noun_count(days.unsigned_abs(), "day"),
        jump.seen
    )
}

/// A removed session, for display.
pub(crate) fn removed_by_cleanup_name(session: &SessionRemoval) -> String {
    let short = session.id.short(SessionId::SHORT);
    match &session.name {
        Some(name) => format!("{name:?} {short}"),
        None => short,
    }
}

/// What a cleanup removed, in a sentence.
pub(crate) fn removed_by_cleanup(cleaned: &CleanupOutcome) -> String {
    let bytes: u64 = cleaned.sessions.iter().map(|session| session.bytes).sum();
    format!(
        "Removed {} ({}), {}, {} ({})",
        noun_count(cleaned.sessions.len(), "session"),
        ByteSize(bytes),
        noun_count(cleaned.checkpoints, "checkpoint"),
        noun_count(cleaned.objects.objects_removed, "object"),
        ByteSize(cleaned.objects.bytes_freed)
    )
}
