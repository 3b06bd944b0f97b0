//! Markdown as a renderer reads it: nothing recorded acts in it, and its headings stay ours.

use abide_model::Event;
use proptest::prelude::*;
use proptest::sample::select;
use pulldown_cmark::{Event as Markup, Options, Parser, Tag, TagEnd};

use super::timeline_builder::rendered;
use super::transcript::session;
use crate::MarkdownRenderer;

/// A session in which this text is everything that can be recorded.
fn session_of(text: &str) -> Vec<Event> {
    let json = |text: &str| serde_json::to_string(text).unwrap();
    let text = json(text);
    let lines = [
        format!(
            r#"{{"kind":"session.created","data":{{"session":"019a8519-0200-7503-9294-f2065da4d5ae","title":{text},"agent":{text}}}}}"#
        ),
        format!(r#"{{"kind":"task.created","data":{{"task":"t","title":{text}}}}}"#),
        format!(r#"{{"kind":"file.touched","data":{{"path":{text},"op":"write"}}}}"#),
        format!(r#"{{"kind":"message.added","data":{{"role":"user","content":{text}}}}}"#),
        r#"{"kind":"turn.started","data":{"agent":"one"}}"#.to_owned(),
        format!(r#"{{"kind":"message.added","data":{{"role":{text},"content":{text}}}}}"#),
        format!(
            r#"{{"kind":"tool.called","data":{{"call":"c","name":{text},"arguments":{{"command":{text}}}}}}}"#
        ),
        format!(r#"{{"kind":"tool.finished","data":{{"call":"c","result":{text}}}}}"#),
        format!(r#"{{"kind":"turn.decided","data":{{"selected":{text},"reason":{text}}}}}"#),
        format!(r#"{{"kind":"log.written","data":{{"level":"error","message":{text}}}}}"#),
        r#"{"kind":"turn.finished","data":{}}"#.to_owned(),
        r#"{"kind":"turn.started","data":{"agent":"two"}}"#.to_owned(),
        format!(
            r#"{{"kind":"session.status","data":{{"status":"completed","reason":{text},"summary":{text}}}}}"#
        ),
    ];
    session(&lines.each_ref().map(String::as_str))
}

/// What a renderer would make of a page that it should not.
fn harm(page: &str, options: Options) -> Option<String> {
    let mut headings = Vec::new();
    let mut heading: Option<String> = None;
    for markup in Parser::new_ext(page, options) {
        match markup {
            Markup::Html(html) | Markup::InlineHtml(html) => return Some(format!("HTML {html}")),
            Markup::Start(Tag::Image { dest_url, .. }) => return Some(format!("image {dest_url}")),
            Markup::Start(Tag::Link { dest_url, .. }) => {
                let scheme = dest_url.split_once(':').map(|(scheme, _)| scheme);
                if !matches!(scheme, None | Some("http" | "https" | "mailto")) {
                    return Some(format!("link {dest_url}"));
                }
            }
            Markup::Start(Tag::FootnoteDefinition(name)) => return Some(format!("note {name}")),
            Markup::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Markup::End(TagEnd::Heading(_)) => headings.extend(heading.take()),
            Markup::Text(text) | Markup::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    // The first is the title.
    let ours = ["Tasks", "Files modified", "What happened", "Turn 1: one", "Turn 2: two"];
    (headings.get(1..) != Some(&ours.map(str::to_owned)[..]))
        .then(|| format!("headings {headings:?}"))
}

fn check(text: &str) -> Result<(), String> {
    let page = rendered(MarkdownRenderer::new(), &session_of(text));
    let github = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM;
    for options in [Options::empty(), github] {
        if let Some(harm) = harm(&page, options) {
            return Err(format!("{harm} of {text:?} in\n{page}"));
        }
    }
    Ok(())
}

#[test]
fn what_was_written_to_act_does_not() {
    for text in [
        "\\<img src=x onerror=alert(1)>",
        "\\\\<img src=x>",
        "[x\\](javascript:alert(1))",
        "[x\\\\](javascript:alert(1))",
        " ```\n```\n<img src=x>\n\n",
        "```\n   ```\n<img src=x>\n",
        "```\n\t```\n<img src=x>\n```\n<b>",
        "- ```\n<img src=x>\n",
        "> ```\n<img src=x>\n",
        "> ~~~\n\n<img src=x>\n",
        "1. ~~~\n<b>\n~~~\n",
        "> [z]: javascript:x\n\n[z]",
        "- [z]: javascript:x\n\n[z]",
        "[z\nz]: javascript:x\n\n[z z]",
        "[z]:\njavascript:x\n\n[z] [a][z] ![z]",
        "[z]: `]:javascript:x`\n\n[z]",
        "[^1]: a note\n\n[^1]",
        "`a\n<b>` c\n`",
        "`a \\` <b> `",
        "\\``a` <b> ``",
        "`a | b` `<i>` `c | d`\n-|-|-\n`a | b` `<i>` `c | d`",
        "|a|\n|-|\n|`\\|`<b>`|`|",
        "> a\n> ---\n> b\n> ===",
        "- # a\n1. ## b\n> # c",
        "a\n-",
        "![a [b](https://c.d)](https://e.f)",
        "<https://a.b> <javascript:x> <!-- a",
        "[a](https://b.c 'd') [e](//f) [g](data:h)",
        "~~~~ `a`\n~~~\n<b>\n~~~~~\n<i>",
    ] {
        check(text).unwrap();
    }
}

fn hostile_markdown() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "\\",
        "`",
        "``",
        "```",
        "````",
        "~~~",
        "~",
        "<b>",
        "<!--",
        "<img src=x>",
        "</p>",
        "&lt;",
        "&#60;",
        "[",
        "]",
        "](",
        ")",
        "]:",
        "[z]",
        "[z]: ",
        "![",
        "!",
        "javascript:x",
        "data:x",
        "https://e.f",
        "(",
        "<",
        ">",
        "|",
        "|-|-|",
        "-|-\n",
        ":-",
        "\n",
        "\n\n",
        "\r\n",
        "\n> ",
        "\n- ",
        "\n1. ",
        "\n    ",
        "\n  ",
        "\n\t",
        " ",
        "\t",
        "#",
        "# ",
        "===",
        "---",
        "***",
        "a",
        "*",
        "_",
        "[^1]",
        "[^1]: ",
        "\u{1b}",
        "\u{b}",
        "\u{a0}",
        ":",
        "+ ",
        "$$",
        "[x](https://e.f)",
        "`x`",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_recorded_acts_in_a_renderer(text in hostile_markdown()) {
        if let Err(harm) = check(&text) {
            prop_assert!(false, "{}", harm);
        }
    }
}
