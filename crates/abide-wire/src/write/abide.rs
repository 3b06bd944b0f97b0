//! abide's own form: messages of blocks, each result in a message with the role `tool`.

use abide_model::MessageForm;

use super::{
    Blocks, Settled, Span, Writing, data_url, field, image_url, in_words, outcome, text_block,
};
use crate::json::{Text, write_string};
use crate::piece::{Arguments, Image, Piece, Recorded, Sort};

const FORM: MessageForm = MessageForm::Abide;

/// Writes messages in abide's own form.
#[derive(Debug, Default)]
pub(crate) struct Abide {
    messages: Vec<String>,
}

impl Abide {
    /// Drains the messages.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    fn message(&mut self, role: &str, mut blocks: Blocks) {
        if blocks.is_empty() {
            return;
        }
        let mut out = "{\"role\":".to_owned();
        write_string(&mut out, role);
        out.push_str(",\"content\":");
        out.push_str(&blocks.take());
        out.push('}');
        self.messages.push(out);
    }
}

impl Writing for Abide {
    fn instructions(&mut self, said: &Recorded<'_>) {
        let mut blocks = Blocks::default();
        said.pieces.iter().for_each(|piece| block(&mut blocks, piece));
        self.message("system", blocks);
    }

    fn user(&mut self, pieces: &[Piece<'_>], _: Option<&Recorded<'_>>) {
        let mut blocks = Blocks::default();
        pieces.iter().for_each(|piece| block(&mut blocks, piece));
        self.message("user", blocks);
    }

    fn answer(&mut self, pieces: &[Piece<'_>], calls: &[Settled<'_>], _: &[Span<'_>]) {
        let mut blocks = Blocks::default();
        let mut settled = calls.iter();
        for piece in pieces {
            let Sort::Call(call) = &piece.sort else {
                block(&mut blocks, piece);
                continue;
            };
            let Some(settled) = settled.next() else { continue };
            let out = blocks.next();
            out.push_str("{\"type\":\"tool_call\"");
            field(out, "call", &settled.id);
            field(out, "name", &settled.name);
            out.push_str(",\"arguments\":");
            match &call.arguments {
                Arguments::None => out.push_str("{}"),
                Arguments::Json(raw) => out.push_str(raw.get()),
                Arguments::Text(text) => super::write_object(out, &Arguments::Text(text.clone())),
            }
            out.push('}');
        }
        self.message("assistant", blocks);
        calls.iter().for_each(|call| self.result(call));
    }

    fn result(&mut self, call: &Settled<'_>) {
        let Some(outcome) = call.result.as_ref().and_then(outcome) else { return };
        let mut content = Blocks::default();
        outcome.pieces.iter().for_each(|piece| block(&mut content, piece));
        let mut blocks = Blocks::default();
        let out = blocks.next();
        out.push_str("{\"type\":\"tool_result\"");
        field(out, "call", &call.id);
        out.push_str(if outcome.ok == Some(false) { ",\"ok\":false" } else { ",\"ok\":true" });
        out.push_str(",\"content\":");
        match outcome.pieces.as_slice() {
            [] => out.push_str("\"\""),
            [Piece { sort: Sort::Text(text), .. }] => text.write(out),
            _ => out.push_str(&content.take()),
        }
        out.push('}');
        self.message("tool", blocks);
    }
}

fn block(blocks: &mut Blocks, piece: &Piece<'_>) {
    if let Some(raw) = piece.native(FORM) {
        return blocks.next().push_str(raw.get());
    }
    match &piece.sort {
        Sort::Call(_) | Sort::Result(_) => {}
        Sort::Text(text) | Sort::Refusal(text) => {
            text_block(blocks.next(), "text", "text", text);
        }
        Sort::Thinking { text, .. } if text.is_blank() => {}
        Sort::Thinking { text, .. } => text_block(blocks.next(), "thinking", "thinking", text),
        Sort::Image(image) => write_image(blocks.next(), image),
        Sort::Other => text_block(blocks.next(), "text", "text", &Text::from(in_words(piece.raw))),
    }
}

fn write_image(out: &mut String, image: &Image<'_>) {
    out.push_str("{\"type\":\"image\",\"source\":{\"type\":\"");
    let url = image_url(image).unwrap_or_default();
    if let Some((sort, base64)) = data_url(&url) {
        out.push_str("base64\"");
        field(out, "media_type", sort);
        field(out, "data", base64);
    } else {
        out.push_str("url\"");
        field(out, "url", &url);
    }
    out.push_str("}}");
}
