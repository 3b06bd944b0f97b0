//! Edits, patches and written files.

use super::arguments::CallArguments;
use super::diff::{CallDiff, DiffLine, DiffSign};
use super::shell::shell_outcome;
use super::{CONTENTS, CallSign, CallView, CallViewBlock, count_lines};
use crate::short::short_count;
use crate::timeline_entry::CallChange;

pub(super) const OLD: [&str; 6] =
    ["old_string", "oldString", "old_str", "oldText", "old_text", "old"];
pub(super) const NEW: [&str; 6] =
    ["new_string", "newString", "new_str", "newText", "new_text", "new"];

/// Whether the arguments have a text and what replaces it, or a list of such pairs.
pub(super) fn has_edit(arguments: &CallArguments) -> bool {
    let pair = |arguments: &CallArguments| {
        OLD.iter().any(|name| arguments.text(name).is_some())
            && NEW.iter().any(|name| arguments.text(name).is_some())
    };
    pair(arguments)
        || arguments.list("edits").is_some_and(|edits| !edits.is_empty() && edits.iter().all(pair))
}

/// The patch that a call applies.
pub(super) fn patch_text(arguments: &CallArguments) -> Option<String> {
    let is_patch = |text: &str| {
        text.contains("*** Begin Patch") || (text.contains("\n+++ ") && text.contains("\n@@"))
    };
    let named = ["patch", "patchText", "patch_text", "diff", "input", "command", "cmd"];
    let whole = || Some(arguments.json().to_owned()).filter(|text| !text.starts_with(['{', '[']));
    named
        .iter()
        .filter_map(|name| {
            // A command may print a patch, or apply it.
            let command = matches!(*name, "command" | "cmd");
            arguments.text(name).filter(|text| !command || text.contains("apply_patch"))
        })
        .find(|text| is_patch(text))
        .or_else(|| whole().filter(|text| is_patch(text)))
}

pub(super) fn edit_view(view: &mut CallView, arguments: &CallArguments, output: &str) {
    view.target = arguments.path().unwrap_or_default();
    let side = |edit: &CallArguments, names: &[&str]| {
        names.iter().find_map(|name| edit.text(name)).unwrap_or_default()
    };
    let one = |edit: &CallArguments| {
        CallDiff::between(&view.target, &side(edit, &OLD), &side(edit, &NEW))
    };
    let diffs = match arguments.list("edits") {
        Some(edits) => edits.iter().map(one).collect(),
        None => vec![one(arguments)],
    };
    let all = ["replace_all", "replaceAll"]
        .iter()
        .any(|name| arguments.text(name).as_deref() == Some("true"));
    if all {
        view.facts.push("every occurrence".to_owned());
    }
    show_diffs(view, diffs);
    view.output_if_failed(output);
}

pub(super) fn patch_view(view: &mut CallView, arguments: &CallArguments, output: &str) {
    let patch = patch_text(arguments).unwrap_or_default();
    let diffs = CallDiff::of_patch(&patch);
    match diffs.as_slice() {
        [] => view.blocks.push(CallViewBlock::Output(patch)),
        [one] => view.target.clone_from(&one.path),
        several => {
            let count = u64::try_from(several.len()).unwrap_or(u64::MAX);
            view.target = short_count(count, "file");
        }
    }
    show_diffs(view, diffs);
    let ended = shell_outcome(output);
    if ended.exit.is_some_and(|exit| exit != 0) {
        view.sign = CallSign::Bad;
    }
    view.output_if_failed(&ended.text);
}

pub(super) fn changes_view(
    view: &mut CallView,
    arguments: &CallArguments,
    changes: &[CallChange],
    output: &str,
) {
    let diffs: Vec<_> = changes
        .iter()
        .map(|change| {
            let path = arguments.relative(change.path.clone());
            CallDiff::between(&path, &change.old, &change.new)
        })
        .collect();
    view.target = match diffs.as_slice() {
        [one] => one.path.clone(),
        several => short_count(u64::try_from(several.len()).unwrap_or(u64::MAX), "file"),
    };
    show_diffs(view, diffs);
    view.output_if_failed(output);
}

pub(super) fn write_view(view: &mut CallView, arguments: &CallArguments, output: &str) {
    view.target = arguments.path().unwrap_or_default();
    let content =
        arguments.any(&CONTENTS).or_else(|| arguments.text("new_str")).unwrap_or_default();
    view.facts.push(short_count(count_lines(&content), "line"));
    let language = crate::highlight::language_of_path(&view.target).to_owned();
    if !content.is_empty() {
        view.blocks.push(CallViewBlock::Code { language, text: content });
    }
    view.output_if_failed(output);
}

fn show_diffs(view: &mut CallView, diffs: Vec<CallDiff>) {
    let count = |sign| diffs.iter().map(|diff| diff.count(sign)).sum::<usize>();
    view.facts.push(format!("+{} −{}", count(DiffSign::Added), count(DiffSign::Removed)));
    let several = diffs.len() > 1;
    for mut diff in diffs {
        if several {
            let path = diff.path.clone();
            diff.lines.insert(0, DiffLine { sign: DiffSign::Gap, text: path });
        }
        view.blocks.push(CallViewBlock::Diff(diff));
    }
}
