//! The marks under which objects were stored that an append by another process names.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The marks of a writer that are held now.
#[derive(Debug, Default)]
pub struct HeldMarks(Mutex<Vec<String>>);

/// A mark, held until it is dropped.
#[derive(Debug)]
pub struct HeldMark {
    of: Arc<HeldMarks>,
    mark: String,
}

/// Marks that differ are held: objects were removed since some of them were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("objects were removed before the event that names them; try again")]
pub struct DifferentMarks;

impl HeldMarks {
    /// Holds a mark. Until it is dropped, what is appended and names objects must find it.
    pub fn hold(self: &Arc<Self>, mark: &str) -> Result<HeldMark, DifferentMarks> {
        let mut marks = self.lock();
        if marks.first().is_some_and(|held| held != mark) {
            return Err(DifferentMarks);
        }
        marks.push(mark.to_owned());
        Ok(HeldMark { of: self.clone(), mark: mark.to_owned() })
    }

    /// The mark that is held: all are the same.
    #[must_use]
    pub fn mark(&self) -> Option<String> {
        self.lock().first().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldMark {
    fn drop(&mut self) {
        let mut marks = self.of.lock();
        if let Some(index) = marks.iter().position(|mark| *mark == self.mark) {
            marks.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_are_held_are_the_same() {
        let marks = Arc::<HeldMarks>::default();
        let (one, again) = (marks.hold("a").unwrap(), marks.hold("a").unwrap());
        assert_eq!(marks.hold("b").unwrap_err(), DifferentMarks);
        drop(one);
        assert_eq!(marks.mark().as_deref(), Some("a"));
        drop(again);
        assert_eq!(marks.mark(), None);
        marks.hold("b").unwrap();
    }
}
