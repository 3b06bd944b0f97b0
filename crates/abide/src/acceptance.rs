//! Checks whether a store location named by a project's own file may be used.

use abide_local::{StoreLocation, StorePlace, TrustPolicy, UserDirs};

use crate::{Consent, Error};

/// Checks that the store at this place may be used. It may if it is inside its project or if the
/// user chose it. If a file of the project points outside the project, the user must have accepted
/// that for this project, or must list the target directory as trusted. Listing a project as
/// trusted covers its owner, not where its files point.
///
/// # Errors
///
/// [`Error::NotAccepted`]; [`Error::Url`] if the URL is invalid and so cannot be accepted.
pub fn check_accepted(
    place: &StorePlace,
    trust: &TrustPolicy,
    consent: Option<&Consent>,
) -> Result<(), Error> {
    let Some(elsewhere) = &place.elsewhere else { return Ok(()) };
    if let StoreLocation::Shared(url) = elsewhere {
        url.check().map_err(|source| Error::Url { url: url.clone(), source })?;
    }
    let accepted = |consent: &Consent| consent.is_accepted(&place.project, elsewhere);
    let listed = matches!(elsewhere, StoreLocation::Files(root) if trust.lists(root));
    if listed || consent.is_some_and(accepted) {
        return Ok(());
    }
    Err(Error::NotAccepted { project: place.project.clone(), place: elsewhere.clone() })
}

/// The user's consent notes, from their state directory.
pub(crate) fn own_consent() -> Consent {
    Consent::at(UserDirs::of_process().state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide_local::SessionScope;
    use abide_model::StoreUrl;

    #[test]
    fn what_leads_out_of_a_project_is_used_where_the_user_has_accepted_that_very_place() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let consent = Consent::at(Some(dir.path().join("state")));
        let shared = |url: &str| StoreLocation::Shared(StoreUrl::of(url).unwrap());
        let place = |to: Option<StoreLocation>| StorePlace {
            store: shared("postgres://h/d"),
            project: project.clone(),
            scope: SessionScope::Project,
            elsewhere: to,
        };
        let own = TrustPolicy::default();
        let checked = |to| check_accepted(&place(to), &own, Some(&consent));
        checked(None).unwrap();
        let to = || Some(shared("postgres://h/d"));
        let refused = checked(to()).unwrap_err();
        assert!(matches!(refused, Error::NotAccepted { .. }), "{refused}");
        assert!(consent.accept(&project, &shared("postgres://h/d")).unwrap());
        checked(to()).unwrap();
        checked(Some(shared("postgres://h/d?sslmode=disable"))).unwrap_err();
        checked(Some(StoreLocation::Files("/elsewhere".into()))).unwrap_err();
        check_accepted(&place(to()), &own, None).unwrap_err();
        let listed = TrustPolicy::default().with_listed(vec![project.clone(), "/elsewhere".into()]);
        check_accepted(&place(to()), &listed, None).unwrap_err();
        check_accepted(&place(Some(StoreLocation::Files("/elsewhere".into()))), &listed, None)
            .unwrap();
        let bad = Some(shared("postgres://h"));
        assert!(matches!(check_accepted(&place(bad), &listed, None), Err(Error::Url { .. })));
    }
}
