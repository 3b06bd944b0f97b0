//! Anthropic's Messages: turns of user and assistant, instructions apart, results in the user's.

use abide_model::MessageForm;

use super::{
    Blocks, Settled, Writing, data_url, field, image_in_words, in_words, is_web, outcome,
    text_block, write_object,
};
use crate::json::{Fields, Text, write_string};
use crate::piece::{Image, Piece, Recorded, Sort, Speaker};

const FORM: MessageForm = MessageForm::Anthropic;

/// Writes messages; those of one role that follow each other are one.
#[derive(Debug, Default)]
pub(crate) struct Anthropic {
    pub(crate) system: Blocks,
    role: Option<Speaker>,
    blocks: Blocks,
    messages: Vec<String>,
}

impl Anthropic {
    /// The messages, all of them.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        self.close();
        std::mem::take(&mut self.messages)
    }

    fn close(&mut self) {
        let Some(role) = self.role.take() else { return };
        let role = if role == Speaker::Assistant { "assistant" } else { "user" };
        let blocks = self.blocks.take();
        self.messages.push(format!("{{\"role\":\"{role}\",\"content\":{blocks}}}"));
    }

    /// Where the next block of this role is to be written.
    fn next(&mut self, role: Speaker) -> &mut String {
        if self.role != Some(role) {
            self.close();
            self.role = Some(role);
        }
        self.blocks.next()
    }

    fn said(&mut self, role: Speaker, piece: &Piece<'_>) {
        match &piece.sort {
            Sort::Thinking { signature, .. } => {
                let signed = signature.as_ref().is_some_and(|signature| !signature.is_blank());
                let kept = piece.native(FORM).filter(|_| signed && role == Speaker::Assistant);
                if let Some(raw) = kept {
                    self.next(role).push_str(raw.get());
                }
            }
            Sort::Call(_) | Sort::Result(_) => {}
            _ => {
                if let Some(block) = shown(piece, role) {
                    self.next(role).push_str(&block);
                }
            }
        }
    }
}

impl Writing for Anthropic {
    fn instructions(&mut self, said: &Recorded<'_>) {
        for piece in &said.pieces {
            match &piece.sort {
                Sort::Image(_) => self.said(Speaker::User, piece),
                Sort::Thinking { .. } | Sort::Call(_) | Sort::Result(_) => {}
                _ => {
                    if let Some(block) = shown(piece, Speaker::Instructions) {
                        self.system.next().push_str(&block);
                    }
                }
            }
        }
    }

    fn user(&mut self, pieces: &[Piece<'_>], _: Option<&Recorded<'_>>) {
        pieces.iter().for_each(|piece| self.said(Speaker::User, piece));
    }

    fn answer(&mut self, pieces: &[Piece<'_>], calls: &[Settled<'_>], _: Option<&Recorded<'_>>) {
        let mut settled = calls.iter();
        for piece in pieces {
            match &piece.sort {
                Sort::Call(call) => {
                    let Some(settled) = settled.next() else { continue };
                    let input = |out: &mut String| write_object(out, &call.arguments);
                    let out = self.next(Speaker::Assistant);
                    // With an input that is an object it is as the API gave it.
                    let kept = piece.native(FORM).filter(|_| settled.same).filter(|raw| {
                        let input = Fields::of(raw.get()).and_then(|fields| fields.get("input"));
                        input.is_some_and(|input| input.get().starts_with('{'))
                    });
                    match kept {
                        Some(raw) => out.push_str(raw.get()),
                        None => {
                            out.push_str("{\"type\":\"tool_use\"");
                            field(out, "id", &settled.id);
                            field(out, "name", &settled.name);
                            out.push_str(",\"input\":");
                            input(out);
                            out.push('}');
                        }
                    }
                }
                Sort::Image(_) => {}
                _ => self.said(Speaker::Assistant, piece),
            }
        }
        calls.iter().filter(|call| call.result.is_some()).for_each(|call| self.result(call));
        // A model's own images have no place but with the user.
        for piece in pieces.iter().filter(|piece| matches!(piece.sort, Sort::Image(_))) {
            self.said(Speaker::User, piece);
        }
    }

    fn result(&mut self, call: &Settled<'_>) {
        let Some(piece) = &call.result else { return };
        let Some(outcome) = outcome(piece) else { return };
        let mut content = Blocks::default();
        let mut as_it_is = call.same;
        for piece in &outcome.pieces {
            let block = shown(piece, Speaker::Instructions.when_image(piece));
            as_it_is &= block.is_some() && (piece.raw.is_none() || piece.native(FORM).is_some());
            content.next_some(block);
        }
        let out = self.next(Speaker::User);
        if let Some(raw) = piece.native(FORM).filter(|_| as_it_is) {
            out.push_str(raw.get());
            return;
        }
        out.push_str("{\"type\":\"tool_result\"");
        field(out, "tool_use_id", &call.id);
        if !content.is_empty() {
            out.push_str(",\"content\":");
            out.push_str(&content.take());
        }
        if outcome.ok == Some(false) {
            out.push_str(",\"is_error\":true");
        }
        out.push('}');
    }
}

impl Blocks {
    fn next_some(&mut self, block: Option<String>) {
        if let Some(block) = block {
            self.next().push_str(&block);
        }
    }
}

impl Speaker {
    /// In results images stand as they do with the user; other blocks only as text.
    fn when_image(self, piece: &Piece<'_>) -> Self {
        if matches!(piece.sort, Sort::Image(_)) { Self::User } else { self }
    }
}

/// A piece as a block that may stand with this role; nothing for what is blank.
fn shown(piece: &Piece<'_>, role: Speaker) -> Option<String> {
    let mut out = String::new();
    match &piece.sort {
        Sort::Text(text) if text.is_blank() => return None,
        Sort::Text(text) => match piece.native(FORM) {
            Some(raw) => out.push_str(raw.get()),
            None => text_block(&mut out, "text", "text", text),
        },
        Sort::Refusal(text) if text.is_blank() => return None,
        Sort::Refusal(text) => text_block(&mut out, "text", "text", text),
        Sort::Thinking { text, .. } => {
            if text.is_blank() {
                return None;
            }
            text_block(&mut out, "text", "text", text);
        }
        Sort::Image(image) => write_image(&mut out, piece, image),
        Sort::Other if native_other(piece, role) => {
            out.push_str(piece.raw.map(|raw| raw.get()).unwrap_or_default());
        }
        Sort::Other | Sort::Call(_) | Sort::Result(_) => {
            let words = in_words(piece.raw);
            if words.trim().is_empty() {
                return None;
            }
            text_block(&mut out, "text", "text", &Text::from(words));
        }
    }
    Some(out)
}

/// May this block, of which we know no more, stand with this role as it is?
fn native_other(piece: &Piece<'_>, role: Speaker) -> bool {
    let Some(fields) = piece.native(FORM).and_then(|raw| Fields::of(raw.get())) else {
        return false;
    };
    let Some(sort) = fields.decoded("type") else { return false };
    match &*sort {
        // What we know, and could not read.
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

/// The images that the API takes.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

fn write_image(out: &mut String, piece: &Piece<'_>, image: &Image<'_>) {
    let data = |out: &mut String, sort: &str, base64: &Text<'_>| {
        out.push_str("{\"type\":\"image\",\"source\":{\"type\":\"base64\"");
        field(out, "media_type", sort);
        out.push_str(",\"data\":");
        base64.write(out);
        out.push_str("}}");
    };
    match image {
        Image::Data { media_type, base64 } => {
            let sort = media_type.decoded();
            match piece.native(FORM) {
                _ if !IMAGES.contains(&&*sort) => {}
                Some(raw) => return out.push_str(raw.get()),
                None => return data(out, &sort, base64),
            }
        }
        Image::Url(url) => {
            let url = url.decoded();
            match (data_url(&url), piece.native(FORM)) {
                (Some((sort, base64)), _) if IMAGES.contains(&sort) => {
                    return data(out, sort, &Text::Plain(base64.into()));
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
    text_block(out, "text", "text", &Text::from(image_in_words(image)));
}
