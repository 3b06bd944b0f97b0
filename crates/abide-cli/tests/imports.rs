//! Which file of the command line imports from which: never in a circle, and no command from another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path without `crate`: `["commands", "run", "plan"]`; that of `main.rs` is empty.
type ModulePath = Vec<String>;

/// The modules that each file imports from, by its own module.
type ImportGraph = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

fn collect_files(dir: &Path, module: &[String], found: &mut BTreeMap<ModulePath, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let below = |name: String| [module, &[name]].concat();
        if path.is_dir() {
            collect_files(&path, &below(name), found);
        } else if name == "mod" || name == "main" {
            found.insert(module.to_vec(), fs::read_to_string(&path).unwrap());
        } else {
            found.insert(below(name), fs::read_to_string(&path).unwrap());
        }
    }
}

/// The code without comments and without the tests at its end.
fn product_code(source: &str) -> String {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// The paths that stand at the start of `text`, with those in braces taken apart.
fn expand_paths(text: &str) -> Vec<Vec<String>> {
    if let Some(group) = text.strip_prefix('{') {
        let (mut depth, mut start, mut paths) = (0_u32, 0, Vec::new());
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                ',' | '}' if depth == 0 => {
                    let part = group[start..at].trim();
                    paths.extend(Some(part).filter(|part| !part.is_empty()).map(expand_paths));
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
        return paths.concat();
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let below = rest.strip_prefix("::").map(expand_paths).unwrap_or_default();
    if below.is_empty() {
        return vec![vec![name.to_owned()]];
    }
    below.into_iter().map(|path| [vec![name.to_owned()], path].concat()).collect()
}

/// Every path in `code` that begins with `crate`, `super` or `self`, from `crate` on.
fn named_paths(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("::") {
        let word = code[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_');
        let start = word.map_or(0, |before| before + 1);
        let is_first = !code[..start].ends_with("::");
        if is_first && matches!(&code[start..at], "crate" | "super" | "self") {
            paths.extend(expand_paths(&code[start..]));
        }
    }
    let absolute = |path: Vec<String>| {
        let mut from = module.to_vec();
        for name in path {
            match name.as_str() {
                "crate" => from.clear(),
                "super" => drop(from.pop()),
                "self" => {}
                _ => from.push(name),
            }
        }
        from
    };
    paths.into_iter().map(absolute).collect()
}

fn import_graph(files: &BTreeMap<ModulePath, String>) -> ImportGraph {
    let imports = files.iter().map(|(module, source)| {
        let code = product_code(source);
        let mut imported = BTreeSet::new();
        for path in named_paths(&code, module) {
            // What follows the module is an item in it.
            let file = (0..=path.len()).rev().find(|end| files.contains_key(&path[..*end]));
            imported.insert(path[..file.unwrap()].to_vec());
        }
        let children = code.lines().filter_map(|line| line.trim().strip_suffix(';'));
        let children = children.filter_map(|line| line.split_once("mod ").map(|(_, name)| name));
        imported.extend(children.map(|name| [&module[..], &[name.to_owned()]].concat()));
        imported.remove(module);
        (module.clone(), imported)
    });
    imports.collect()
}

/// The files that import each other, directly or by way of others.
fn import_circles(graph: &ImportGraph) -> Vec<ModulePath> {
    let reached = |from: &ModulePath| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&ModulePath> = graph[from].iter().collect();
        while let Some(module) = open.pop() {
            if seen.insert(module) {
                open.extend(&graph[module]);
            }
        }
        seen
    };
    graph.keys().filter(|module| reached(module).contains(module)).cloned().collect()
}

/// Imports that the layout forbids: of a command by anything but itself and the dispatcher.
fn forbidden_imports(graph: &ImportGraph) -> Vec<String> {
    let mut forbidden = Vec::new();
    for (module, imports) in graph {
        let own = &module[..module.len().min(2)];
        // `main.rs` names the dispatcher, and the dispatcher every command.
        let is_above = module.is_empty() || *module == ["commands"];
        for import in
            imports.iter().filter(|import| import.first().is_some_and(|first| first == "commands"))
        {
            if !is_above && !import.starts_with(own) || import.len() == 1 && !module.is_empty() {
                forbidden.push(format!("{} imports from {}", module.join("::"), import.join("::")));
            }
        }
    }
    forbidden
}

fn graph_of(files: &[(&str, &str)]) -> ImportGraph {
    let path =
        |name: &str| name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
    import_graph(&files.iter().map(|(name, code)| (path(name), (*code).to_owned())).collect())
}

#[test]
fn no_command_imports_another_and_no_files_import_in_a_circle() {
    let mut files = BTreeMap::new();
    collect_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut files);
    let graph = import_graph(&files);
    assert!(graph.len() > 60 && graph[&vec!["command_store".to_owned()]].len() > 3, "{graph:#?}");
    assert_eq!(forbidden_imports(&graph), Vec::<String>::new());
    assert_eq!(import_circles(&graph), Vec::<ModulePath>::new());
}

#[test]
fn forbidden_imports_and_circles_are_seen() {
    let main = ("", "mod commands;\nmod store;\nuse crate::commands::Go;");
    let commands = ("commands", "mod new;\nmod run;");
    let plan = ("commands::run::plan", "");
    let good = [main, commands, ("commands::new", "use crate::store::Open;"), ("store", ""), plan];
    let good = [&good[..], &[("commands::run", "mod plan;\nuse self::plan::{Plan, of};")]].concat();
    let graph = graph_of(&good);
    assert!(forbidden_imports(&graph).is_empty() && import_circles(&graph).is_empty(), "{graph:?}");
    let bad: [(usize, &str, usize, usize); 5] = [
        (2, "use super::run::start;", 1, 0),
        (2, "fn f() {\n    crate::commands::run::plan::of();\n}", 1, 0),
        (3, "use crate::{commands::{new}};", 1, 2),
        (4, "use super::told;", 0, 2),
        (3, "use crate::AbideArgs;", 0, 4),
    ];
    for (file, code, forbidden, in_circle) in bad {
        let mut files = good.clone();
        files[file].1 = code;
        let graph = graph_of(&files);
        assert_eq!(forbidden_imports(&graph).len(), forbidden, "{code}");
        assert_eq!(import_circles(&graph).len(), in_circle, "{code}");
    }
}
