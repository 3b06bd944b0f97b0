//! What agents print, seen as a whole.
