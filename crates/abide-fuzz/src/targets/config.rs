//! `config.toml`.

use abide_local::Config;
use abide_model::{StoreError, TimeSpan};

use crate::input::{disk, root};

/// Runs one input.
pub(crate) fn run(data: &[u8]) -> bool {
    let disk = disk([("config.toml", data)]);
    let path = root().join("config.toml");
    let read = Config::read(&*disk, &path);
    let is_accepted = read.is_ok();
    match read {
        Ok(config) => {
            // What is let in keeps to the limits, and is read the same again.
            assert!(config.version <= abide_local::STORE_VERSION);
            assert!(config.journal.segment_bytes >= 4096 && config.journal.object_bytes >= 1024);
            assert!((1..=19).contains(&config.objects.level));
            assert_eq!(Config::read(&*disk, &path).expect("as before"), config);
            if let Some(span) = &config.retention.max_age {
                assert_eq!(span.to_string().parse::<TimeSpan>().ok().as_ref(), Some(span));
            }
        }
        Err(StoreError::Damaged { reason, .. }) => assert!(reason.len() <= 512 + 4 * data.len()),
        Err(StoreError::NewerVersion { found, known, .. }) => assert!(found > known),
        Err(error) => panic!("{error:?}"),
    }
    is_accepted
}
