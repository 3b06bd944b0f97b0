//! Reads the blocks of messages that carry more than text: images, attachments, what tools returned,
//! and tools that an API ran itself.

use abide_model::json::{RawJsonFields, list};
use abide_model::message::{ImagePiece, MessagePiece, PieceContent, UnreadPiece};

use crate::tidy::{tidy_fields, tidy_text};
use crate::timeline_entry::{CallField, CallOutput, EntryPart, TimelineCall, TimelineImage};

/// What a block says that the model's reader does not read.
pub(crate) enum UnreadBlock {
    /// A part of the message.
    Part(EntryPart),
    /// A call that the API ran itself, and whether it succeeded and what it gave, if the block says
    /// so.
    Call { call: Box<TimelineCall>, ended: Option<bool>, output: CallOutput },
    /// The result of such a call.
    Result { call: String, ok: bool, output: CallOutput },
}

/// Reads a block that is not read any further by the model.
pub(crate) fn read_unread(unread: &UnreadPiece, raw: &str) -> UnreadBlock {
    let fields = RawJsonFields::of(raw).unwrap_or_default();
    let sort = fields.decoded("type").unwrap_or_default();
    match unread {
        UnreadPiece::Served(id) => {
            let name = fields.decoded("name").map(|name| name.into_owned());
            let name = name.unwrap_or_else(|| sort.trim_end_matches("_call").to_owned());
            let names = ["input", "action", "arguments", "queries", "code", "query"];
            let arguments = names.iter().find_map(|name| fields.get(name));
            let ended = match fields.decoded("status").as_deref() {
                Some("completed") => Some(true),
                Some("failed") => Some(false),
                _ => None,
            };
            let told = ["output", "error", "outputs", "results"];
            let text =
                told.iter().find_map(|name| fields.get(name)).map(|raw| tidy_text(raw.get()));
            let output = CallOutput { text: text.unwrap_or_default(), ..CallOutput::default() };
            UnreadBlock::Call {
                call: Box::new(TimelineCall::new(
                    id.decoded().into_owned(),
                    name,
                    arguments.map(|raw| raw.get().to_owned()).unwrap_or_default(),
                )),
                ended,
                output,
            }
        }
        UnreadPiece::Audio => UnreadBlock::Part(EntryPart::Attachment("audio".to_owned())),
        UnreadPiece::Block => match fields.decoded("tool_use_id") {
            Some(call) if sort.ends_with("_tool_result") => {
                let text = fields.get("content").map(|raw| served_text(raw.get()));
                let text = text.unwrap_or_default();
                let inner = fields.get("content").and_then(|raw| RawJsonFields::of(raw.get()));
                let error =
                    inner.and_then(|inner| Some(inner.decoded("type")?.ends_with("_error")));
                let ok = !fields.flag("is_error").or(error).unwrap_or_default();
                let output = CallOutput { text, ..CallOutput::default() };
                UnreadBlock::Result { call: call.into_owned(), ok, output }
            }
            _ => UnreadBlock::Part(attachment(&sort, &fields, raw)),
        },
    }
}

/// The content of a result of an API's own tool: found pages by title and address.
fn served_text(raw: &str) -> String {
    let items = serde_json::from_str(raw).ok().and_then(list);
    let line = |raw: &serde_json::value::RawValue| {
        let fields = RawJsonFields::of(raw.get())?;
        let title = fields.decoded("title")?;
        let address = fields.decoded("url").unwrap_or_default();
        Some(format!("{title} {address}").trim_end().to_owned())
    };
    let lines: Option<Vec<_>> = items.and_then(|items| items.into_iter().map(line).collect());
    lines.map_or_else(|| tidy_text(raw), |lines| lines.join("\n"))
}

fn attachment(sort: &str, fields: &RawJsonFields<'_>, raw: &str) -> EntryPart {
    let name = |fields: &RawJsonFields<'_>| {
        let names = ["title", "filename", "name", "uri", "file_id", "file_url"];
        names.iter().find_map(|name| fields.decoded(name)).map(|name| name.into_owned())
    };
    let inside = ["file", "source", "resource", "document", "input_audio"]
        .iter()
        .find_map(|name| RawJsonFields::of(fields.get(name)?.get()));
    let named = name(fields).or_else(|| inside.as_ref().and_then(name));
    let noun = match sort {
        "document" | "input_file" | "file" | "container_upload" => "document",
        "input_audio" | "audio" => "audio",
        "resource" | "resource_link" => "resource",
        "search_result" => "search result",
        _ => {
            let mut fields = tidy_fields(raw, &["type"]);
            if !sort.is_empty() {
                let name = sort.replace('_', " ");
                fields.insert(0, CallField { name: String::new(), value: name });
            }
            return EntryPart::Fields(fields);
        }
    };
    EntryPart::Attachment(match named {
        Some(name) => format!("{noun} {name}"),
        None => noun.to_owned(),
    })
}

/// Reads an image.
pub(crate) fn read_image(image: &ImagePiece) -> TimelineImage {
    match image {
        ImagePiece::Data { media_type, base64 } => TimelineImage {
            media_type: media_type.decoded().into_owned(),
            base64: base64.decoded().into_owned(),
            address: String::new(),
        },
        ImagePiece::Url(url) => {
            let url = url.decoded();
            let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
            match data {
                Some((media_type, base64)) => TimelineImage {
                    media_type: media_type.to_owned(),
                    base64: base64.to_owned(),
                    address: String::new(),
                },
                None => TimelineImage {
                    media_type: String::new(),
                    base64: String::new(),
                    address: url.into_owned(),
                },
            }
        }
    }
}

/// What a tool returned.
pub(crate) fn output_of_pieces(pieces: &[MessagePiece]) -> CallOutput {
    let mut output = CallOutput::default();
    for piece in pieces {
        match &piece.sort {
            PieceContent::Text(text)
            | PieceContent::Refusal(text)
            | PieceContent::Thinking { text, .. } => add_text(&mut output, &text.decoded()),
            PieceContent::Image(image) => output.images.push(read_image(image)),
            PieceContent::Call(call) => add_text(&mut output, &call.name),
            PieceContent::Result(result) => {
                let inner = output_of_pieces(&result.pieces);
                add_text(&mut output, &inner.text);
                output.images.extend(inner.images);
            }
            PieceContent::Other(_) => {
                let raw = piece.raw.as_ref().map_or("", |raw| raw.get());
                add_text(&mut output, &other_output(raw));
            }
        }
    }
    output
}

/// What a tool returned, out of the wrapping `{"query":…,"result":…,"success":…}` or a list of such;
/// and whether all of it succeeded. `None` if it is not wrapped so.
pub(crate) fn unwrapped_output(text: &str) -> Option<(CallOutput, bool)> {
    let raw: &serde_json::value::RawValue = serde_json::from_str(text.trim()).ok()?;
    let items = list(raw).unwrap_or_else(|| vec![raw]);
    let mut output = CallOutput::default();
    let mut ok = !items.is_empty();
    for item in items {
        let fields = RawJsonFields::of(item.get())?;
        fields.any("query")?;
        let (result, success) = (fields.get("result")?, fields.flag("success")?);
        ok &= success;
        match list(result) {
            None => add_text(&mut output, &tidy_text(result.get())),
            Some(blocks) => {
                blocks.into_iter().for_each(|block| add_block(&mut output, block.get()))
            }
        }
        if let Some(error) = fields.decoded("error").filter(|_| !success && output.text.is_empty())
        {
            add_text(&mut output, &error);
        }
    }
    Some((output, ok))
}

/// Adds a block of a wrapped result.
fn add_block(output: &mut CallOutput, raw: &str) {
    let fields = RawJsonFields::of(raw).unwrap_or_default();
    let text = |name: &str| fields.decoded(name).unwrap_or_default().into_owned();
    match fields.decoded("type").as_deref() {
        Some("text") => add_text(output, &text("text")),
        Some("image") => output.images.push(TimelineImage {
            media_type: text("mediaType"),
            base64: text("data"),
            address: String::new(),
        }),
        _ => add_text(output, &tidy_text(raw)),
    }
}

fn add_text(output: &mut CallOutput, text: &str) {
    if !output.text.is_empty() && !output.text.ends_with('\n') {
        output.text.push('\n');
    }
    output.text.push_str(text);
}

/// A block of a result that is neither text nor an image.
fn other_output(raw: &str) -> String {
    let fields = RawJsonFields::of(raw).unwrap_or_default();
    let inner = fields.get("resource").and_then(|raw| RawJsonFields::of(raw.get()));
    if let Some(text) = inner.as_ref().and_then(|inner| inner.decoded("text")) {
        return text.into_owned();
    }
    match attachment(&fields.decoded("type").unwrap_or_default(), &fields, raw) {
        EntryPart::Attachment(name) => format!("({name})"),
        _ => tidy_text(raw),
    }
}
