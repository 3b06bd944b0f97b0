//! The session in the golden files of the store.

/// Its directory in the store.
pub const SESSION: &str = "sessions/2025-11-15T01-20-00-edn9te";

macro_rules! golden {
    ($($name:literal),* $(,)?) => {
        [$((
            concat!(".abide/", $name),
            &include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../abide-local/tests/golden/v1/store/",
                $name
            ))[..],
        )),*]
    };
}

/// The files of its store, without snapshots of the state.
pub fn store() -> [(&'static str, &'static [u8]); 7] {
    golden![
        "config.toml",
        "keys/68ca9baf17c67ef7b4560a4455bacf8d",
        "keys/complete",
        "objects/00000001.pack",
        "sessions/2025-11-15T01-20-00-edn9te/journal/00000001.jsonl.zst",
        "sessions/2025-11-15T01-20-00-edn9te/journal/00000002.jsonl",
        "sessions/2025-11-15T01-20-00-edn9te/watermark",
    ]
}

/// Its snapshots: two roots and the pages.
pub fn snapshots() -> [(&'static str, &'static [u8]); 3] {
    golden![
        "sessions/2025-11-15T01-20-00-edn9te/state/handover.0",
        "sessions/2025-11-15T01-20-00-edn9te/state/handover.1",
        "sessions/2025-11-15T01-20-00-edn9te/state/pages.0",
    ]
}

/// The same session as a bundle.
pub const BUNDLE: &[u8] = include_bytes!("../../abide-local/tests/golden/v1/session.abide");

/// Its events as they are exported.
pub const EXPORT: &str = include_str!("../../abide-local/tests/golden/v1/export.jsonl");
