//! Options for access to objects.

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use crate::CacheOptions;

/// Options for access to objects.
#[derive(Clone)]
pub struct ObjectsOptions {
    /// The environment variables `AWS_…`: endpoint, region, credentials.
    pub environment: Vec<(String, String)>,
    /// A cache on the local disk.
    pub cache: Option<CacheOptions>,
    /// How long a request is retried, with growing pauses, before it fails.
    pub patience: Duration,
}

impl Default for ObjectsOptions {
    fn default() -> Self {
        Self { environment: Vec::new(), cache: None, patience: Duration::from_secs(60) }
    }
}

impl ObjectsOptions {
    /// The defaults, with the `AWS_…` variables of an environment: that of the process is
    /// `std::env::vars_os()`.
    #[must_use]
    pub fn of(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let environment = environment
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("AWS_"))
            .collect();
        Self { environment, ..Self::default() }
    }
}

/// Without the values of the environment, which are secret.
impl fmt::Debug for ObjectsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("ObjectsOptions")
            .field("environment", &names)
            .field("cache", &self.cache)
            .field("patience", &self.patience)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let pairs = [("AWS_SECRET_ACCESS_KEY", "hidden"), ("HOME", "elsewhere")];
        let options = ObjectsOptions::of(pairs.map(|(name, value)| (name.into(), value.into())));
        let shown = format!("{options:?}");
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY"), "{shown}");
        assert!(!shown.contains("hidden") && !shown.contains("HOME"), "{shown}");
    }
}
