//! OpenAI's Chat Completions: one message per result, images only in user messages.

use abide_model::MessageForm;
use abide_model::json::{RawJsonFields, write_string};
use abide_model::message::{
    CallPieceArguments, ImagePiece, JsonText, MessagePiece, PieceContent, RecordedMessage, Speaker,
    TypeField, UnreadPiece,
};

use super::{
    AnswerSpan, JsonList, MessageWriter, SettledCall, field, image_in_words, image_url, in_words,
    raw, text_block, write_arguments,
};

const FORM: MessageForm = MessageForm::OpenAi;

/// Writes Chat Completions messages.
#[derive(Debug, Default)]
pub(crate) struct OpenAiWriter {
    messages: Vec<String>,
}

impl OpenAiWriter {
    /// Drains the messages.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    fn message(&mut self, role: &str, content: OpenAiContent) {
        if content.blocks.is_empty() {
            return;
        }
        let mut out = format!("{{\"role\":\"{role}\",\"content\":");
        content.write(&mut out);
        out.push('}');
        self.messages.push(out);
    }

    /// Writes images that are not allowed in their own message as a user message.
    fn images(&mut self, images: Vec<&MessagePiece>, of: &'static str) {
        if images.is_empty() {
            return;
        }
        let mut content = OpenAiContent::default();
        content.add(&MessagePiece::text(of), Speaker::User);
        images.into_iter().for_each(|piece| content.add(piece, Speaker::User));
        self.message("user", content);
    }

    /// Writes a result and returns its images.
    fn tool<'p>(&mut self, call: &'p SettledCall<'_>) -> Vec<&'p MessagePiece> {
        let Some(outcome) = call.result.as_ref().and_then(MessagePiece::result) else {
            return Vec::new();
        };
        let (images, others): (Vec<_>, Vec<_>) =
            outcome.pieces.iter().partition(|piece| is_shown_image(piece));
        let mut content = OpenAiContent::default();
        others.into_iter().for_each(|piece| content.add(piece, Speaker::Instructions));
        let mut out = "{\"role\":\"tool\"".to_owned();
        field(&mut out, "tool_call_id", &call.id);
        out.push_str(",\"content\":");
        match (content.blocks.is_empty(), images.is_empty()) {
            (true, false) => write_string(&mut out, IMAGES_FOLLOW),
            _ => content.write(&mut out),
        }
        out.push('}');
        self.messages.push(out);
        images
    }
}

/// The text of a result that has only images.
const IMAGES_FOLLOW: &str = "(see the images in the next message of the user)";
const OF_RESULTS: &str = "Images from the results above:";
const OF_MODEL: &str = "Images from the message above:";

fn is_shown_image(piece: &MessagePiece) -> bool {
    matches!(&piece.sort, PieceContent::Image(image) if image_url(image).is_some())
}

impl MessageWriter for OpenAiWriter {
    fn instructions(&mut self, said: &RecordedMessage) {
        if as_it_is(said, &[]) {
            self.messages.push(said.as_it_came().into_owned());
            return;
        }
        let mut content = OpenAiContent::default();
        for piece in said.pieces.iter().filter(|piece| !is_shown_image(piece)) {
            content.add(piece, Speaker::Instructions);
        }
        self.message(if said.role == "developer" { "developer" } else { "system" }, content);
        self.images(said.pieces.iter().filter(|piece| is_shown_image(piece)).collect(), OF_MODEL);
    }

    fn user(&mut self, pieces: &[MessagePiece], whole: Option<&RecordedMessage>) {
        if let Some(said) = whole.filter(|said| said.role == "user" && as_it_is(said, &[])) {
            self.messages.push(said.as_it_came().into_owned());
            return;
        }
        let mut content = OpenAiContent::default();
        pieces.iter().for_each(|piece| content.add(piece, Speaker::User));
        self.message("user", content);
    }

    fn answer(
        &mut self,
        pieces: &[MessagePiece],
        calls: &[SettledCall<'_>],
        spans: &[AnswerSpan<'_>],
    ) {
        let whole = match spans {
            [span] => Some(&*span.recorded),
            _ => None,
        };
        if let Some(said) = whole.filter(|said| said.role == "assistant" && as_it_is(said, calls)) {
            self.messages.push(said.as_it_came().into_owned());
        } else if let Some(message) = assistant(pieces, calls) {
            self.messages.push(message);
        }
        let mut images = Vec::new();
        for call in calls {
            images.extend(self.tool(call));
        }
        self.images(images, OF_RESULTS);
        self.images(pieces.iter().filter(|piece| is_shown_image(piece)).collect(), OF_MODEL);
    }

    fn result(&mut self, call: &SettledCall<'_>) {
        let images = self.tool(call);
        self.images(images, OF_RESULTS);
    }
}

fn assistant(pieces: &[MessagePiece], calls: &[SettledCall<'_>]) -> Option<String> {
    let mut content = OpenAiContent::default();
    let (mut refusals, mut thoughts) = (Vec::new(), Vec::new());
    let mut tool_calls = JsonList::default();
    let mut settled = calls.iter();
    for piece in pieces {
        match &piece.sort {
            PieceContent::Call(call) => {
                let Some(settled) = settled.next() else { continue };
                let out = tool_calls.next();
                let text = matches!(call.arguments, CallPieceArguments::Text(_));
                match piece.native(FORM).filter(|raw| settled.same && text && is_entry(raw.get())) {
                    Some(raw) => out.push_str(raw.get()),
                    None => {
                        out.push_str("{\"id\":");
                        write_string(out, &settled.id);
                        out.push_str(",\"type\":\"function\",\"function\":{\"name\":");
                        write_string(out, &settled.name);
                        out.push_str(",\"arguments\":");
                        write_arguments(out, &call.arguments);
                        out.push_str("}}");
                    }
                }
            }
            PieceContent::Refusal(text) if !text.is_blank() => refusals.push(text.decoded()),
            // OpenAI has no such field, but providers that send it accept it.
            PieceContent::Thinking { text, .. } if piece.forms.has(FORM) && piece.raw.is_none() => {
                thoughts.push(text.decoded());
            }
            _ if is_shown_image(piece) => {}
            _ => content.add(piece, Speaker::Assistant),
        }
    }
    if content.blocks.is_empty() && refusals.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let mut out = "{\"role\":\"assistant\",\"content\":".to_owned();
    match content.blocks.is_empty() {
        true => out.push_str("null"),
        false => content.write(&mut out),
    }
    if !refusals.is_empty() {
        field(&mut out, "refusal", &refusals.join("\n\n"));
    }
    if !thoughts.is_empty() {
        field(&mut out, "reasoning_content", &thoughts.join("\n\n"));
    }
    if !tool_calls.is_empty() {
        out.push_str(",\"tool_calls\":");
        out.push_str(&tool_calls.take());
    }
    out.push('}');
    Some(out)
}

/// Whether this is an entry of `tool_calls` with a type and the matching field.
fn is_entry(raw: &str) -> bool {
    let Some(fields) = RawJsonFields::of(raw) else { return false };
    fields.decoded("type").is_some_and(|sort| fields.get(&sort).is_some())
}

/// Whether the API accepts this message unchanged.
fn as_it_is(said: &RecordedMessage, calls: &[SettledCall<'_>]) -> bool {
    let shape = said.shape;
    let whole = said.forms.has(FORM)
        && !said.marks.partial
        && !shape.function_call
        && shape.sort == TypeField::None
        && calls.iter().all(|call| call.same);
    if !whole {
        return false;
    }
    let refused =
        said.pieces.iter().filter(|piece| matches!(piece.sort, PieceContent::Refusal(_))).count();
    if shape.tool_calls.is_some_and(|count| count == 0 || count != calls.len())
        || shape.blocks == Some(0)
        || refused > 1
        || (refused == 1 && shape.blocks.is_some())
    {
        return false;
    }
    let speaker = said.speaker();
    let mut something = false;
    let fits = said.pieces.iter().all(|piece| {
        something |= !matches!(piece.sort, PieceContent::Thinking { .. });
        match &piece.sort {
            PieceContent::Text(text) => !text.is_blank(),
            PieceContent::Refusal(text) => speaker == Speaker::Assistant && !text.is_blank(),
            PieceContent::Thinking { .. } => speaker == Speaker::Assistant && piece.raw.is_none(),
            PieceContent::Call(call) => {
                let text = matches!(call.arguments, CallPieceArguments::Text(_));
                speaker == Speaker::Assistant
                    && text
                    && piece.native(FORM).is_some_and(|raw| is_entry(raw.get()))
            }
            PieceContent::Image(_) => speaker == Speaker::User && is_shown_image(piece),
            PieceContent::Other(what) => match speaker {
                Speaker::User => native_other(piece),
                Speaker::Assistant => matches!(what, UnreadPiece::Audio),
                Speaker::Instructions => false,
            },
            PieceContent::Result(_) => false,
        }
    });
    fits && something
}

/// Whether this is a part that abide does not parse but that is valid in a user message.
fn native_other(piece: &MessagePiece) -> bool {
    let fields = piece.native(FORM).and_then(|raw| RawJsonFields::of(raw.get()));
    let sort = fields.and_then(|fields| fields.decoded("type"));
    sort.is_some_and(|sort| !matches!(&*sort, "text" | "image_url" | "refusal"))
}

/// The content of a message: a string if it is one text, otherwise parts.
#[derive(Default)]
struct OpenAiContent {
    blocks: JsonList,
    /// The text, if it is the only part.
    only: Option<JsonText>,
}

impl OpenAiContent {
    fn add(&mut self, piece: &MessagePiece, speaker: Speaker) {
        let text = match &piece.sort {
            PieceContent::Text(text) | PieceContent::Refusal(text) if text.is_blank() => return,
            PieceContent::Text(text) => {
                if let Some(raw) = piece.native(FORM) {
                    self.only = None;
                    self.blocks.next().push_str(raw.get());
                    return;
                }
                text.clone()
            }
            PieceContent::Refusal(text) => text.clone(),
            PieceContent::Image(image) if speaker == Speaker::User => {
                return self.image(piece, image);
            }
            PieceContent::Image(image) => image_in_words(image).into(),
            PieceContent::Other(_) if speaker == Speaker::User && native_other(piece) => {
                self.only = None;
                self.blocks.next().push_str(raw(piece));
                return;
            }
            PieceContent::Other(_) => in_words(piece).into(),
            PieceContent::Thinking { .. } | PieceContent::Call(_) | PieceContent::Result(_) => {
                return;
            }
        };
        text_block(self.blocks.next(), "text", "text", &text);
        self.only = (self.blocks.count == 1).then_some(text);
    }

    fn image(&mut self, piece: &MessagePiece, image: &ImagePiece) {
        self.only = None;
        let out = self.blocks.next();
        match (image_url(image), piece.native(FORM)) {
            (Some(_), Some(raw)) => out.push_str(raw.get()),
            (Some(url), None) => {
                out.push_str("{\"type\":\"image_url\",\"image_url\":{\"url\":");
                write_string(out, &url);
                out.push_str("}}");
            }
            (None, _) => {
                text_block(out, "text", "text", &JsonText::from(image_in_words(image)));
            }
        }
    }

    fn write(mut self, out: &mut String) {
        match (self.only, self.blocks.is_empty()) {
            (Some(text), _) => text.write(out),
            (None, true) => out.push_str("\"\""),
            (None, false) => out.push_str(&self.blocks.take()),
        }
    }
}
