//! Anthropic's Messages: alternating user and assistant turns, separate instructions, and results
//! in user turns.

mod turn;

use abide_model::MessageForm;
use abide_model::json::{RawJsonFields, write_string};
use abide_model::message::{
    ImagePiece, JsonText, MessagePiece, PieceContent, RecordedMessage, Speaker,
};

use self::turn::{AnthropicTurn, TurnBlock};
use super::{
    AnswerSpan, JsonList, MessageWriter, SettledCall, data_url, field, image_in_words, in_words,
    is_web, raw, text_block, write_object,
};

const FORM: MessageForm = MessageForm::Anthropic;

/// Writes messages, joining consecutive ones of the same role.
#[derive(Debug, Default)]
pub(crate) struct AnthropicWriter {
    system: Vec<String>,
    turns: Vec<AnthropicTurn>,
    /// Images of failed results, which go after all results of the turn.
    behind: Vec<String>,
}

impl AnthropicWriter {
    /// Returns the instructions as a list of blocks, if any, and the messages.
    pub(crate) fn finish(mut self) -> (Option<String>, Vec<String>) {
        self.place_behind();
        turn::keep_pairs(&mut self.turns);
        turn::join(&mut self.turns);
        let system = self.system.iter_mut();
        turn::keep_marks(
            system.chain(
                self.turns.iter_mut().flat_map(|turn| &mut turn.blocks).map(TurnBlock::text),
            ),
        );
        let system = (!self.system.is_empty()).then(|| format!("[{}]", self.system.join(",")));
        (system, self.turns.iter().map(AnthropicTurn::message).collect())
    }

    /// Writes a block with this role.
    fn push(&mut self, role: Speaker, block: TurnBlock) {
        match self.turns.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => turn.blocks.push(block),
            None => self.turns.push(AnthropicTurn { role, blocks: vec![block] }),
        }
    }

    /// Writes a block with this role that is not a result.
    fn next(&mut self, role: Speaker, block: TurnBlock) {
        self.place_behind();
        self.push(role, block);
    }

    fn place_behind(&mut self) {
        for image in std::mem::take(&mut self.behind) {
            self.push(Speaker::User, TurnBlock::plain(image));
        }
    }

    fn said(&mut self, role: Speaker, piece: &MessagePiece) {
        match &piece.sort {
            PieceContent::Thinking { signature, .. } => {
                let signed = signature.as_ref().is_some_and(|signature| !signature.is_blank());
                let kept = piece.native(FORM).filter(|_| signed && role == Speaker::Assistant);
                if let Some(raw) = kept {
                    self.next(role, TurnBlock::thought(raw.get().to_owned()));
                }
            }
            PieceContent::Call(_) | PieceContent::Result(_) => {}
            _ => {
                if let Some(block) = shown(piece, role) {
                    let served =
                        matches!(piece.sort, PieceContent::Other(_)) && role == Speaker::Assistant;
                    self.next(
                        role,
                        if served { TurnBlock::other(block) } else { TurnBlock::plain(block) },
                    );
                }
            }
        }
    }
}

impl MessageWriter for AnthropicWriter {
    fn instructions(&mut self, said: &RecordedMessage) {
        for piece in &said.pieces {
            match &piece.sort {
                PieceContent::Image(_) => self.said(Speaker::User, piece),
                PieceContent::Thinking { .. } | PieceContent::Call(_) | PieceContent::Result(_) => {
                }
                _ => {
                    if let Some(block) = shown(piece, Speaker::Instructions) {
                        self.system.push(block);
                    }
                }
            }
        }
    }

    fn user(&mut self, pieces: &[MessagePiece], _: Option<&RecordedMessage>) {
        pieces.iter().for_each(|piece| self.said(Speaker::User, piece));
    }

    fn answer(&mut self, pieces: &[MessagePiece], calls: &[SettledCall<'_>], _: &[AnswerSpan<'_>]) {
        // Trailing reasoning of the previous answer led to nothing.
        if let Some(turn) = self.turns.last_mut() {
            turn.drop_thoughts();
        }
        self.turns.pop_if(|turn| turn.blocks.is_empty());
        let mut settled = calls.iter();
        for piece in pieces {
            match &piece.sort {
                PieceContent::Call(call) => {
                    let Some(settled) = settled.next() else { continue };
                    // The API accepts its own block only if the input is an object.
                    let kept = piece.native(FORM).filter(|_| settled.same).filter(|raw| {
                        let input =
                            RawJsonFields::of(raw.get()).and_then(|fields| fields.get("input"));
                        input.is_some_and(|input| input.get().starts_with('{'))
                    });
                    let block = kept.map_or_else(
                        || {
                            let mut out = "{\"type\":\"tool_use\"".to_owned();
                            field(&mut out, "id", &settled.id);
                            field(&mut out, "name", &settled.name);
                            out.push_str(",\"input\":");
                            write_object(&mut out, &call.arguments);
                            out.push('}');
                            out
                        },
                        |raw| raw.get().to_owned(),
                    );
                    self.next(Speaker::Assistant, TurnBlock::other(block));
                }
                PieceContent::Image(_) => {}
                _ => self.said(Speaker::Assistant, piece),
            }
        }
        calls.iter().filter(|call| call.result.is_some()).for_each(|call| self.result(call));
        // The API accepts images only from the user.
        for piece in pieces.iter().filter(|piece| matches!(piece.sort, PieceContent::Image(_))) {
            self.said(Speaker::User, piece);
        }
    }

    fn result(&mut self, call: &SettledCall<'_>) {
        let Some(piece) = &call.result else { return };
        let Some(outcome) = piece.result() else { return };
        let failed = outcome.ok == Some(false);
        let native = piece.native(FORM);
        let mut content = JsonList::default();
        let mut as_it_is = call.same && !(failed && outcome.pieces.is_empty());
        for piece in &outcome.pieces {
            let block = match native_in_result(piece).filter(|_| native.is_some() && !failed) {
                Some(raw) => Some(raw.to_owned()),
                None => {
                    let block = shown(piece, speaker_in_result(piece));
                    let known = piece.raw.is_none() || piece.native(FORM).is_some();
                    as_it_is &= block.is_some() && known;
                    block
                }
            };
            let Some(block) = block else { continue };
            // The API accepts only text in a failed result.
            if failed && !is_words(&block) {
                as_it_is = false;
                self.behind.push(block);
            } else {
                content.next().push_str(&block);
            }
        }
        if let Some(raw) = native.filter(|_| as_it_is) {
            return self.push(Speaker::User, TurnBlock::plain(raw.get().to_owned()));
        }
        let mut out = "{\"type\":\"tool_result\"".to_owned();
        field(&mut out, "tool_use_id", &call.id);
        if failed && content.is_empty() {
            text_block(content.next(), "text", "text", &JsonText::from(FAILED));
        }
        if !content.is_empty() {
            out.push_str(",\"content\":");
            out.push_str(&content.take());
        }
        if failed {
            out.push_str(",\"is_error\":true");
        }
        out.push('}');
        self.push(Speaker::User, TurnBlock::plain(out));
    }
}

/// The text of a failed result that has none.
const FAILED: &str = "failed";

/// A block, neither text nor image, that a result may contain unchanged.
fn native_in_result(piece: &MessagePiece) -> Option<&str> {
    let raw = piece.raw.as_ref().filter(|_| matches!(piece.sort, PieceContent::Other(_)))?.get();
    let sort = RawJsonFields::of(raw)?.decoded("type")?;
    (sort == "tool_reference").then_some(raw)
}

/// Whether this is a text block.
fn is_words(block: &str) -> bool {
    RawJsonFields::of(block)
        .and_then(|fields| fields.decoded("type"))
        .is_some_and(|sort| sort == "text")
}

/// Whose block a piece of a result is written as: images as in user messages, other blocks only as
/// text.
const fn speaker_in_result(piece: &MessagePiece) -> Speaker {
    match piece.sort {
        PieceContent::Image(_) => Speaker::User,
        _ => Speaker::Instructions,
    }
}

/// A piece as a block that is valid for this role; `None` if it is blank.
fn shown(piece: &MessagePiece, role: Speaker) -> Option<String> {
    let mut out = String::new();
    match &piece.sort {
        PieceContent::Text(text) if text.is_blank() => return None,
        PieceContent::Text(text) => match piece.native(FORM) {
            Some(raw) => out.push_str(raw.get()),
            None => text_block(&mut out, "text", "text", text),
        },
        PieceContent::Refusal(text) if text.is_blank() => return None,
        PieceContent::Refusal(text) => text_block(&mut out, "text", "text", text),
        PieceContent::Thinking { text, .. } => {
            if text.is_blank() {
                return None;
            }
            text_block(&mut out, "text", "text", text);
        }
        PieceContent::Image(image) => write_image(&mut out, piece, image),
        PieceContent::Other(_) if native_other(piece, role) => {
            out.push_str(raw(piece));
        }
        PieceContent::Other(_) | PieceContent::Call(_) | PieceContent::Result(_) => {
            let words = in_words(piece);
            if words.trim().is_empty() {
                return None;
            }
            text_block(&mut out, "text", "text", &JsonText::from(words));
        }
    }
    Some(out)
}

/// Whether this block, which abide does not parse, is valid for this role unchanged.
fn native_other(piece: &MessagePiece, role: Speaker) -> bool {
    let Some(fields) = piece.native(FORM).and_then(|raw| RawJsonFields::of(raw.get())) else {
        return false;
    };
    let Some(sort) = fields.decoded("type") else { return false };
    match &*sort {
        // Known types that could not be parsed.
        "text" | "thinking" | "redacted_thinking" | "tool_use" | "tool_result" | "tool_call" => {
            false
        }
        "image" => role == Speaker::User && fields.get("source").is_some(),
        "document" | "search_result" | "container_upload" => role == Speaker::User,
        sort if sort.ends_with("_tool_use") || sort.ends_with("_tool_result") => {
            role == Speaker::Assistant
        }
        _ => role != Speaker::Instructions,
    }
}

/// The image types that the API accepts.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

fn write_image(out: &mut String, piece: &MessagePiece, image: &ImagePiece) {
    let data = |out: &mut String, sort: &str, base64: &JsonText| {
        out.push_str("{\"type\":\"image\",\"source\":{\"type\":\"base64\"");
        field(out, "media_type", sort);
        out.push_str(",\"data\":");
        base64.write(out);
        out.push_str("}}");
    };
    match image {
        ImagePiece::Data { media_type, base64 } => {
            let sort = media_type.decoded();
            match piece.native(FORM) {
                _ if !IMAGES.contains(&&*sort) => {}
                Some(raw) => return out.push_str(raw.get()),
                None => return data(out, &sort, base64),
            }
        }
        ImagePiece::Url(url) => {
            let url = url.decoded();
            match (data_url(&url), piece.native(FORM)) {
                (Some((sort, base64)), _) if IMAGES.contains(&sort) => {
                    return data(out, sort, &JsonText::from(base64.to_owned()));
                }
                (None, Some(raw)) if is_web(&url) => return out.push_str(raw.get()),
                (None, None) if is_web(&url) => {
                    out.push_str("{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":");
                    write_string(out, &url);
                    return out.push_str("}}");
                }
                _ => {}
            }
        }
    }
    text_block(out, "text", "text", &JsonText::from(image_in_words(image)));
}
