//! The rules of a cleanup: which settings apply to which sessions.

use std::collections::BTreeMap;
use std::path::Path;

use abide_model::{Retention, RetentionOverrides};

/// The rules of a cleanup. Sessions of a project with its own settings are counted separately, all
/// others together.
#[derive(Debug, Clone, Default)]
pub struct CleanupRules {
    /// For all sessions except those of `projects`.
    pub retention: Retention,
    /// Settings that override these, by a project's id or directory.
    pub projects: BTreeMap<String, RetentionOverrides>,
    /// Only sessions of these projects are removed and counted; of all projects if empty.
    pub only: Vec<String>,
    /// The ids that one project is known by: settings under one of them apply to its sessions under
    /// all of them.
    pub known_by: Vec<String>,
}

impl From<&Retention> for CleanupRules {
    fn from(retention: &Retention) -> Self {
        Self { retention: retention.clone(), ..Self::default() }
    }
}

impl From<&Self> for CleanupRules {
    fn from(rules: &Self) -> Self {
        rules.clone()
    }
}

impl CleanupRules {
    /// The settings of each group of sessions: the store's, then the projects'.
    #[must_use]
    pub fn groups(&self) -> Vec<Retention> {
        let projects = self.projects.values().map(|it| it.over(&self.retention));
        std::iter::once(self.retention.clone()).chain(projects).collect()
    }

    /// The group of a session; `None` if it stays in any case.
    #[must_use]
    pub fn group_of(&self, project: Option<&str>, dir: Option<&Path>) -> Option<usize> {
        if !self.only.is_empty() && project.is_none_or(|id| !self.only.iter().any(|it| it == id)) {
            return None;
        }
        let ids = match project {
            Some(id) if self.known_by.iter().any(|it| it == id) => self.known_by.clone(),
            project => project.map(str::to_owned).into_iter().collect(),
        };
        let named = self.projects.keys().map(String::as_str).zip(1..);
        Some(config_named_for(named, &ids, dir).map_or(0, |(_, place)| place))
    }

    /// Whether this holds for the settings of any group.
    pub fn any(&self, holds: impl Fn(&Retention) -> bool) -> bool {
        self.groups().iter().any(holds)
    }
}

/// The entry for a project among entries keyed by project id or directory: that of an id it is
/// known by, else that of the nearest directory that is `dir` or contains it.
pub fn config_named_for<'a, T>(
    named: impl Iterator<Item = (&'a str, T)>,
    ids: &[String],
    dir: Option<&Path>,
) -> Option<(&'a str, T)> {
    // An id takes precedence over any directory; of two ids, the one named first wins.
    let rank = |name: &str| {
        let path = Path::new(name);
        match ids.iter().rev().position(|id| id == name) {
            Some(place) => Some((1, place)),
            None if path.is_absolute() && dir.is_some_and(|dir| dir.starts_with(path)) => {
                Some((0, path.components().count()))
            }
            None => None,
        }
    };
    let ranked = named.filter_map(|(name, it)| rank(name).map(|rank| (rank, (name, it))));
    ranked.max_by_key(|(rank, _)| *rank).map(|(_, it)| it)
}
