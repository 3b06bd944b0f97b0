//! abide's own form: messages of blocks, each result in a message with the role `tool`.

use abide_model::MessageForm;
use abide_model::json::write_string;
use abide_model::message::{
    CallPieceArguments, ImagePiece, JsonText, MessagePiece, PieceContent, RecordedMessage,
};

use super::{
    AnswerSpan, JsonList, MessageWriter, SettledCall, data_url, field, image_url, in_words,
    text_block,
};

const FORM: MessageForm = MessageForm::Abide;

/// Writes messages in abide's own form.
#[derive(Debug, Default)]
pub(crate) struct AbideWriter {
    messages: Vec<String>,
}

impl AbideWriter {
    /// Drains the messages.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    fn message(&mut self, role: &str, mut blocks: JsonList) {
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

impl MessageWriter for AbideWriter {
    fn instructions(&mut self, said: &RecordedMessage) {
        let mut blocks = JsonList::default();
        said.pieces.iter().for_each(|piece| block(&mut blocks, piece));
        self.message("system", blocks);
    }

    fn user(&mut self, pieces: &[MessagePiece], _: Option<&RecordedMessage>) {
        let mut blocks = JsonList::default();
        pieces.iter().for_each(|piece| block(&mut blocks, piece));
        self.message("user", blocks);
    }

    fn answer(&mut self, pieces: &[MessagePiece], calls: &[SettledCall<'_>], _: &[AnswerSpan<'_>]) {
        let mut blocks = JsonList::default();
        let mut settled = calls.iter();
        for piece in pieces {
            let PieceContent::Call(call) = &piece.sort else {
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
                CallPieceArguments::None => out.push_str("{}"),
                CallPieceArguments::Json(raw) => out.push_str(raw.get()),
                text @ CallPieceArguments::Text(_) => super::write_object(out, text),
            }
            out.push('}');
        }
        self.message("assistant", blocks);
        calls.iter().for_each(|call| self.result(call));
    }

    fn result(&mut self, call: &SettledCall<'_>) {
        let Some(outcome) = call.result.as_ref().and_then(MessagePiece::result) else { return };
        let mut content = JsonList::default();
        outcome.pieces.iter().for_each(|piece| block(&mut content, piece));
        let mut blocks = JsonList::default();
        let out = blocks.next();
        out.push_str("{\"type\":\"tool_result\"");
        field(out, "call", &call.id);
        out.push_str(if outcome.ok == Some(false) { ",\"ok\":false" } else { ",\"ok\":true" });
        out.push_str(",\"content\":");
        match outcome.pieces.as_slice() {
            [] => out.push_str("\"\""),
            [MessagePiece { sort: PieceContent::Text(text), .. }] => text.write(out),
            _ => out.push_str(&content.take()),
        }
        out.push('}');
        self.message("tool", blocks);
    }
}

fn block(blocks: &mut JsonList, piece: &MessagePiece) {
    if let Some(raw) = piece.native(FORM) {
        return blocks.next().push_str(raw.get());
    }
    match &piece.sort {
        PieceContent::Call(_) | PieceContent::Result(_) => {}
        PieceContent::Text(text) | PieceContent::Refusal(text) => {
            text_block(blocks.next(), "text", "text", text);
        }
        PieceContent::Thinking { text, .. } if text.is_blank() => {}
        PieceContent::Thinking { text, .. } => {
            text_block(blocks.next(), "thinking", "thinking", text)
        }
        PieceContent::Image(image) => write_image(blocks.next(), image),
        PieceContent::Other(_) => {
            text_block(blocks.next(), "text", "text", &JsonText::from(in_words(piece)))
        }
    }
}

fn write_image(out: &mut String, image: &ImagePiece) {
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
