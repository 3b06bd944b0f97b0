//! Whole transcripts: what is written is read back, whatever was recorded.

mod generate;
mod markdown;
mod samples;
mod timeline_builder;
mod transcript;
