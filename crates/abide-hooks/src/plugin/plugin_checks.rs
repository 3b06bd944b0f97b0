//! What is looked at before a plugin is put in or taken out: links, and plugins of others with its name.

use abide_agents::{PluginParts, PluginSite};

use super::plugin_error::PluginError;
use super::plugin_record::PluginRecord;
use super::settings_file::is_link;
use super::settings_place::{is_ours, place_name, place_path};

/// Can the paths of a project be noted, and are they in it? What is checked out from somewhere may hold
/// links that lead out of it.
pub(super) fn check_paths(site: &PluginSite, parts: &PluginParts) -> Result<(), PluginError> {
    let Some(project) = &site.project else { return Ok(()) };
    if project.to_str().is_none() {
        return Err(PluginError::NotUtf8 { path: project.clone() });
    }
    let places = parts.own.iter().chain(&parts.emptied).map(place_path);
    for path in places.chain(parts.files.iter().map(|file| file.path.as_path())) {
        let inside = path.ancestors().take_while(|above| above != project);
        if path.starts_with(project)
            && let Some(link) = inside.into_iter().find(|above| is_link(above))
        {
            return Err(PluginError::Link { path: link.to_owned() });
        }
    }
    Ok(())
}

/// Where nothing is remembered, what has the plugin's name may be somebody else's.
pub(super) fn check_signs(
    record: Option<&PluginRecord>,
    site: &PluginSite,
    parts: &PluginParts,
) -> Result<(), PluginError> {
    if record.is_some_and(|record| record.has(site)) {
        return Ok(());
    }
    for sign in &parts.signs {
        if !is_ours(sign)? {
            return Err(PluginError::NotOurs { place: place_name(&sign.place) });
        }
    }
    Ok(())
}
