//! Finds the files that a call is about.

use serde_json::Value;

/// Arguments that name a file, whatever the tool.
const NAMES: [&str; 7] =
    ["file_path", "filepath", "filename", "file_name", "file", "notebook_path", "target_file"];

/// Arguments that name a file if the tool works on files; for other tools they name a place to
/// search or to work in.
const PLACES: [&str; 3] = ["path", "paths", "files"];

/// Tools that work on files have one of these words in their names.
const VERBS: [&str; 12] = [
    "read", "write", "edit", "patch", "create", "view", "open", "replace", "insert", "delete",
    "move", "file",
];

/// Prefixes of a file name in the text of a patch.
const PATCHED: [&str; 4] =
    ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "];

/// The files that a call names, in order.
pub(super) fn files_of_call(tool: &str, arguments: &str) -> Vec<String> {
    let tool = tool.to_lowercase();
    let for_files = VERBS.iter().any(|verb| tool.contains(verb));
    let mut found = Vec::new();
    match serde_json::from_str(arguments) {
        Ok(Value::Object(fields)) => {
            for (name, value) in &fields {
                let name = name.as_str();
                if NAMES.contains(&name) || (for_files && PLACES.contains(&name)) {
                    match value {
                        Value::String(path) => found.push(path.clone()),
                        Value::Array(paths) => {
                            found.extend(paths.iter().filter_map(Value::as_str).map(str::to_owned));
                        }
                        _ => {}
                    }
                } else if let (true, Value::String(text)) = (for_files, value) {
                    found.extend(patched_files(text));
                }
            }
        }
        Ok(Value::String(text)) if for_files => found.extend(patched_files(&text)),
        Err(_) if for_files => found.extend(patched_files(arguments)),
        _ => {}
    }
    found.retain(|path| !path.trim().is_empty() && path != ".");
    found
}

fn patched_files(text: &str) -> impl Iterator<Item = String> {
    let name = |line: &str| {
        PATCHED
            .iter()
            .find_map(|prefix| line.strip_prefix(prefix))
            .map(|name| name.trim().to_owned())
    };
    text.lines().filter_map(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_argument_and_tool() {
        assert_eq!(files_of_call("Read", r#"{"file_path":"src/a.rs","limit":3}"#), ["src/a.rs"]);
        assert_eq!(
            files_of_call("str_replace_editor", r#"{"path":"b.rs","command":"view"}"#),
            ["b.rs"]
        );
        assert_eq!(files_of_call("read_many", r#"{"paths":["a","","b",3]}"#), ["a", "b"]);
        assert_eq!(files_of_call("compile", r#"{"file":"c.c"}"#), ["c.c"]);
        let patch =
            r#"{"input":"*** Begin Patch\n*** Update File: d.rs\n+x\n*** Add File: e.rs\n"}"#;
        assert_eq!(files_of_call("apply_patch", patch), ["d.rs", "e.rs"]);
        for (tool, arguments) in [
            ("grep", r#"{"path":"src"}"#),
            ("list", r#"{"path":"."}"#),
            ("read", r#"{"path":"."}"#),
            ("read", r#"{"path":"#),
            ("read", "[]"),
            ("bash", "*** Update File: f.rs"),
        ] {
            assert!(files_of_call(tool, arguments).is_empty(), "{tool} {arguments}");
        }
    }
}
