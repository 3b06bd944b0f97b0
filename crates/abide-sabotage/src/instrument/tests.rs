//! Small sources with breaks in them: what comes out, what it does, what is refused.

use std::path::PathBuf;
use std::process::Command;

use super::*;

fn edit(name: &str, find: &str, replace: &str) -> Edit {
    Edit {
        name: name.to_owned(),
        file: PathBuf::from("a.rs"),
        find: find.to_owned(),
        replace: replace.to_owned(),
    }
}

/// The instrumented source, with `on(NAME)` for the long switch.
fn shown(source: &str, edits: &[Edit]) -> String {
    let mut out = instrument(source, edits).unwrap();
    for edit in edits {
        out = out.replace(&switch(&edit.name), &format!("on({})", edit.name));
    }
    out
}

fn refused(source: &str, edit: Edit) -> String {
    instrument(source, &[edit]).unwrap_err().to_string()
}

#[test]
fn the_innermost_block_is_doubled() {
    let source = "fn f(a: u32) -> u32 {\n    if a > 1 {\n        a + 1 // one more\n    } else {\n        0\n    }\n}\n";
    assert_eq!(
        shown(source, &[edit("less", "a + 1", "a - 1")]),
        "fn f(a: u32) -> u32 {\n    if a > 1 { if on(less) { a - 1 } else {\n        a + 1 // one more\n    }} else {\n        0\n    }\n}\n"
    );
    // A text that reaches over two blocks is in the one around both.
    assert_eq!(
        shown(source, &[edit("none", "} else {\n        0", "} else {\n        9")]),
        "fn f(a: u32) -> u32 { if on(none) { if a > 1 { a + 1 } else { 9 } } else {\n    if a > 1 {\n        a + 1 // one more\n    } else {\n        0\n    }\n}}\n"
    );
}

#[test]
fn breaks_of_one_block_and_of_blocks_within_are_independent() {
    let source = "fn f() { a(); { b(); } }";
    let edits = [edit("x", "a()", "x()"), edit("y", "b()", "y()"), edit("z", "a();", "")];
    assert_eq!(
        shown(source, &edits),
        "fn f() { if on(x) { x () ; { b () ; } } else if on(z) { { b () ; } } else { \
         a(); { if on(y) { y () ; } else { b(); }} }}"
    );
}

#[test]
fn lines_keep_their_numbers() {
    let source = "fn f() {\n    // why\n    a();\n    let x = \"é\";\n    b(x);\n}\nfn g() {}\n";
    let out = shown(source, &[edit("x", "b(x)", "c(x)")]);
    assert_eq!(out.lines().count(), source.lines().count());
    assert_eq!(out.lines().last(), Some("fn g() {}"));
    assert!(out.contains("let x = \"é\" ; c (x) ;"), "{out}");
}

#[test]
fn inner_attributes_stay_first() {
    let source = "fn f() {\n    #![allow(unused)]\n    a();\n}";
    assert_eq!(
        shown(source, &[edit("x", "a();", "")]),
        "fn f() {\n    #![allow(unused)] if on(x) {  } else {\n    a();\n}}"
    );
}

#[test]
fn a_text_in_a_macro_is_of_the_block_around_it() {
    let source = "fn f() -> Vec<u8> { vec![{ 1 }, 2] }";
    assert_eq!(
        shown(source, &[edit("x", "1", "3")]),
        "fn f() -> Vec<u8> { if on(x) { vec ! [{ 3 } , 2] } else { vec![{ 1 }, 2] }}"
    );
}

#[test]
fn what_the_compiler_evaluates_is_refused() {
    for source in [
        "const fn f() -> u8 { 7 }",
        "const A: u8 = { 7 };",
        "static A: u8 = { 7 };",
        "impl A { const B: u8 = { 7 }; }",
        "impl A { const fn f() -> u8 { 7 } }",
        "type A = [u8; { 7 }];",
        "enum A { B = { 7 } }",
        "#[size(7)] struct A;",
        "macro_rules! a { () => { { 7 } } }",
    ] {
        let said = refused(source, edit("x", "7", "8"));
        assert!(
            said.starts_with("break \"x\": its text is not inside a block"),
            "{source}: {said}"
        );
    }
    // What surrounds it may run, and a closure does wherever it is made.
    for source in [
        "fn f() { const A: u8 = { 7 }; }",
        "fn f() { g([0; { 7 }]) }",
        "fn f() { const { 7 } }",
        "static A: L = L::new(|| { 7 });",
        "const _: () = { fn f() -> u8 { 7 } };",
    ] {
        assert!(instrument(source, &[edit("x", "7", "8")]).is_ok(), "{source}");
    }
}

#[test]
fn a_break_that_does_not_apply_is_named() {
    let source = "fn f() { a(); a(); b(); }";
    let cases = [
        (edit("x", "c()", ""), "break \"x\": its text does not stand in a.rs"),
        (edit("x", "a()", ""), "break \"x\": its text stands more than once in a.rs"),
        (edit("x", "b()", "b("), "break \"x\": the broken block does not parse: "),
        (edit("x", "b()", "let let"), "break \"x\": the broken block does not parse: "),
        (edit("x", "", "d()"), "break \"x\": its text stands more than once in a.rs"),
    ];
    for (edit, start) in cases {
        let said = refused(source, edit);
        assert!(said.starts_with(start), "{said}");
    }
}

/// Blocks of every sort that a second copy could upset.
const PROGRAM: &str = r#"
use std::cell::RefCell;
use std::fmt::Display;

struct Loud(&'static str);
impl Drop for Loud {
    fn drop(&mut self) { print!("-{}", self.0); }
}
impl Loud {
    fn len(&self) -> usize { self.0.len() }
}

fn tail() -> usize { let _last = Loud("local"); Loud("temporary").len() }
fn borrowed() -> usize { let cell = RefCell::new(vec![1]); cell.borrow().len() }
fn diverges(of: Option<u8>) -> u8 { let Some(it) = of else { return 40; }; it }
fn never(on: bool) -> u8 { if on { 1 } else { std::process::exit(77); } }
fn opaque() -> impl Display { 50 }
fn dynamic() -> Box<dyn Display> { Box::new(60) }
fn closure(base: &str) -> String { let add = |more: &str| { format!("{base}{more}7") }; add("0") }
fn label() -> u32 { let mut n = 0; 'out: loop { loop { n += 8; if n > 70 { break 'out; } } } n }
fn items() -> u32 { const A: u32 = 90; fn inner() -> u32 { A } inner() }
fn generic<T: Display>(it: T) -> String { #![allow(unused)] let it = it; format!("{it}!") }
async fn later() -> u8 { 110 }
fn wait() -> u8 {
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    match std::pin::pin!(later()).poll(&mut context) { std::task::Poll::Ready(it) => it, _ => 0 }
}

fn main() {
    let answers: [&dyn Display; 11] = [
        &tail(), &borrowed(), &diverges(None), &never(true), &opaque(), &dynamic(), &closure("b"),
        &label(), &items(), &generic("g"), &wait(),
    ];
    for answer in answers { print!(" {answer}"); }
    println!(" {}:{}", file!(), line!());
}
"#;

/// The program is compiled once with all of these, and then does the one it is told to.
#[test]
fn one_build_holds_every_break() {
    let cases = [
        ("tail", "Loud(\"temporary\")", "Loud(\"t\")", " 1 1 40 1 50 60 b07 72 90 g! 110"),
        ("borrowed", "vec![1]", "vec![1, 2]", " 9 2 40 1 50 60 b07 72 90 g! 110"),
        ("diverges", "return 40;", "return 41;", " 9 1 41 1 50 60 b07 72 90 g! 110"),
        ("never", "if on {", "if !on {", ""),
        ("exits", "exit(77);", "exit(78);", " 9 1 40 1 50 60 b07 72 90 g! 110"),
        ("opaque", "50", "51", " 9 1 40 1 51 60 b07 72 90 g! 110"),
        ("dynamic", "Box::new(60)", "Box::new(\"s\")", " 9 1 40 1 50 s b07 72 90 g! 110"),
        ("closure", "{more}7", "{more}8", " 9 1 40 1 50 60 b08 72 90 g! 110"),
        ("label", "break 'out;", "n += 100; break 'out;", " 9 1 40 1 50 60 b07 172 90 g! 110"),
        ("items", "u32 = 90", "u32 = 91", " 9 1 40 1 50 60 b07 72 91 g! 110"),
        ("generic", "{it}!", "{it}?", " 9 1 40 1 50 60 b07 72 90 g? 110"),
        ("later", "110", "111", " 9 1 40 1 50 60 b07 72 90 g! 111"),
    ];
    let edits = cases.map(|(name, find, replace, _)| edit(name, find, replace));
    let dir = std::env::temp_dir().join(format!("sabotage-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (source, program) = (dir.join("a.rs"), dir.join("a"));
    std::fs::write(&source, instrument(PROGRAM, &edits).unwrap()).unwrap();
    let built = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition", "2024", "--cap-lints", "allow", "-o"])
        .args([&program, &source])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let run = |name: &str| {
        let witness = dir.join(format!("ran-{name}"));
        let mut command = Command::new(&program);
        command.env(SWITCH, name).env(WITNESS, &witness);
        let done = command.output().unwrap();
        (String::from_utf8(done.stdout).unwrap(), done.status.code(), witness.exists())
    };
    let whole = "-temporary-local 9 1 40 1 50 60 b07 72 90 g! 110";
    let line = PROGRAM.lines().position(|line| line.contains("line!()")).unwrap() + 1;
    let end = format!(" {}:{line}\n", source.display());
    assert_eq!(run("no such break"), (format!("{whole}{end}"), Some(0), false));
    for (name, _, _, answers) in cases {
        let expected = match name {
            "never" => ("-temporary-local".to_owned(), Some(77), true),
            // It is not reached.
            "exits" => (format!("{whole}{end}"), Some(0), false),
            "tail" => (format!("-t-local{answers}{end}"), Some(0), true),
            _ => (format!("-temporary-local{answers}{end}"), Some(0), true),
        };
        assert_eq!(run(name), expected, "{name}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}
