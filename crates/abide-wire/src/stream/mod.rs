//! Answers of models as they come, in chunks of any size.
