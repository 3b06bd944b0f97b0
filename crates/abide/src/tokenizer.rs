//! Counts the tokens that a text has for a model.
//!
//! OpenAI's encodings are public, and `abide-tokens` implements them. For other models the number
//! is estimated from the length of the text.

use abide_model::message::{CallPiece, MessagePiece, PieceContent};
use abide_model::{ContextEntry, OUTCOME_UNKNOWN, Payload, RecordedResult, TokenBasis, ToolResult};
use abide_tokens::Encoding;

/// Tokens per message in addition to its text.
const MESSAGE: u64 = 4;
/// Tokens assumed for an image.
const IMAGE: u64 = 1_600;

/// A number of tokens, split by how it was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenCount {
    /// Reported by the provider.
    pub reported: u64,
    /// Counted with the model's tokenizer.
    pub counted: u64,
    /// Estimated.
    pub estimated: u64,
}

impl TokenCount {
    /// The total.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.reported.saturating_add(self.counted).saturating_add(self.estimated)
    }

    /// How the least certain part was obtained.
    #[must_use]
    pub const fn how(&self) -> TokenBasis {
        match (self.estimated, self.counted) {
            (0, 0) => TokenBasis::Reported,
            (0, _) => TokenBasis::Counted,
            _ => TokenBasis::Estimated,
        }
    }

    /// Adds another count.
    pub const fn sum(&mut self, other: &Self) {
        self.add(other.reported, TokenBasis::Reported);
        self.add(other.counted, TokenBasis::Counted);
        self.add(other.estimated, TokenBasis::Estimated);
    }

    /// Adds tokens that were obtained in this way.
    pub const fn add(&mut self, tokens: u64, how: TokenBasis) {
        let part = match how {
            TokenBasis::Reported => &mut self.reported,
            TokenBasis::Counted => &mut self.counted,
            TokenBasis::Estimated => &mut self.estimated,
        };
        *part = part.saturating_add(tokens);
    }
}

/// Counts the tokens of texts.
#[derive(Debug, Clone, Copy)]
pub struct Tokenizer {
    encoding: Option<Encoding>,
}

impl Tokenizer {
    /// The tokenizer of a model, or an estimator if it is not public.
    #[must_use]
    pub fn for_model(model: Option<&str>) -> Self {
        // A router names a model `openai/gpt-5`.
        let name = model.and_then(|model| model.rsplit('/').next()).unwrap_or_default();
        let begins = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
        let new = [
            "gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "chatgpt-", "codex", "o1", "o3",
            "o4",
        ];
        let encoding = if begins(&new) {
            Some(Encoding::O200kBase)
        } else if begins(&["gpt-4", "gpt-3.5"]) {
            Some(Encoding::Cl100kBase)
        } else {
            None
        };
        Self { encoding }
    }

    /// An estimator, which is fast and works for every model.
    #[must_use]
    pub const fn estimate() -> Self {
        Self { encoding: None }
    }

    /// How its numbers are obtained.
    #[must_use]
    pub const fn how(&self) -> TokenBasis {
        if self.encoding.is_some() { TokenBasis::Counted } else { TokenBasis::Estimated }
    }

    /// The number of tokens in a text.
    #[must_use]
    pub fn text(&self, text: &str) -> u64 {
        self.encoding.map_or_else(|| estimated(text), |encoding| encoding.count(text) as u64)
    }

    /// The tokens of one context entry. Images are always estimated.
    #[must_use]
    pub fn entry(&self, entry: &ContextEntry) -> TokenCount {
        let mut count = TokenCount::default();
        self.add(MESSAGE, &mut count);
        match entry {
            // Results are entries of their own.
            ContextEntry::Message { message, .. } => {
                let pieces = message.pieces.iter().filter(|piece| piece.result().is_none());
                pieces.for_each(|piece| self.piece(piece, &mut count));
            }
            ContextEntry::Call { data, .. } => {
                if let Some(call) = CallPiece::begun(data) {
                    self.call(&call, &mut count);
                }
            }
            ContextEntry::Result { result: RecordedResult::Executed(data), .. } => {
                self.executed(data, &mut count);
            }
            ContextEntry::Result { result: RecordedResult::Message(message), call, .. } => {
                let mut results = message.pieces.iter().filter_map(MessagePiece::result);
                if let Some(result) = results.find(|result| result.id == call.0) {
                    result.pieces.iter().for_each(|piece| self.piece(piece, &mut count));
                }
            }
            ContextEntry::Unknown { .. } => self.add_text(OUTCOME_UNKNOWN, &mut count),
            ContextEntry::Summary { text, .. } => self.add_text(text, &mut count),
        }
        count
    }

    const fn add(&self, tokens: u64, count: &mut TokenCount) {
        count.add(tokens, self.how());
    }

    fn add_text(&self, text: &str, count: &mut TokenCount) {
        self.add(self.text(text), count);
    }

    fn executed(&self, data: &Payload, count: &mut TokenCount) {
        let fact: Option<ToolResult> = data.decode().ok();
        let Some(result) = fact.and_then(|fact| fact.result) else { return };
        match serde_json::from_str::<std::borrow::Cow<'_, str>>(result.get()) {
            Ok(text) => self.add_text(&text, count),
            Err(_) => self.add_text(result.get(), count),
        }
    }

    fn piece(&self, piece: &MessagePiece, count: &mut TokenCount) {
        match &piece.sort {
            PieceContent::Text(text)
            | PieceContent::Refusal(text)
            | PieceContent::Thinking { text, .. } => self.add_text(&text.decoded(), count),
            PieceContent::Image(_) => count.add(IMAGE, TokenBasis::Estimated),
            PieceContent::Call(call) => self.call(call, count),
            PieceContent::Result(result) => {
                result.pieces.iter().for_each(|piece| self.piece(piece, count));
            }
            PieceContent::Other(_) => {
                self.add_text(piece.raw.as_ref().map_or("", |raw| raw.get()), count);
            }
        }
    }

    fn call(&self, call: &CallPiece, count: &mut TokenCount) {
        self.add(MESSAGE, count);
        self.add_text(&call.name, count);
        self.add_text(&call.arguments.text(), count);
    }
}

/// A number of tokens that the payload of an event never exceeds in a context, found without reading
/// it: no tokenizer makes more tokens than bytes, and only an image counts as more than its bytes.
pub(crate) fn token_ceiling(payload: &str) -> u64 {
    payload.len() as u64 + IMAGE * payload.matches("image").count() as u64
}

/// Four characters per token for English and code, one for most other scripts.
fn estimated(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = if ascii == text.len() as u64 {
        0
    } else {
        text.chars().filter(|c| !c.is_ascii()).count() as u64
    };
    ascii.div_ceil(4) + others
}

#[cfg(test)]
mod tests {
    use super::*;
    use abide_model::RecordedMessage;

    #[test]
    fn a_model_is_counted_by_its_own_encoding_and_others_are_estimated() {
        for (model, how) in [
            (Some("gpt-5-mini"), TokenBasis::Counted),
            (Some("openai/gpt-4o"), TokenBasis::Counted),
            (Some("gpt-4-turbo"), TokenBasis::Counted),
            (Some("claude-sonnet-4-5"), TokenBasis::Estimated),
            (None, TokenBasis::Estimated),
        ] {
            assert_eq!(Tokenizer::for_model(model).how(), how, "{model:?}");
        }
        let counted = Tokenizer::for_model(Some("gpt-4o"));
        assert_eq!(counted.text("hello world"), 2);
        assert_eq!(counted.text(""), 0);
        let estimate = Tokenizer::estimate();
        assert_eq!(estimate.text("hello world!"), 3);
        assert_eq!(estimate.text("日本語"), 3);
    }

    #[test]
    fn a_count_says_how_its_weakest_part_is_known() {
        let mut count = TokenCount { reported: 10, ..TokenCount::default() };
        assert_eq!((count.total(), count.how()), (10, TokenBasis::Reported));
        count.add(5, TokenBasis::Counted);
        assert_eq!((count.total(), count.how()), (15, TokenBasis::Counted));
        count.add(1, TokenBasis::Estimated);
        assert_eq!((count.total(), count.how()), (16, TokenBasis::Estimated));
    }

    #[test]
    fn no_payload_has_more_tokens_than_its_ceiling() {
        let long = "日本語 🦀 \u{1f1e9}\u{1f1ea} zzqxj ".repeat(50);
        let image = r#"[{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}]"#;
        for content in [r#""x""#, &serde_json::json!(long).to_string(), image] {
            let data = format!(r#"{{"role":"user","content":{content}}}"#);
            let payload = Payload::new(&data, &abide_model::EventLimits::default()).unwrap();
            let message = std::sync::Arc::new(RecordedMessage::of(&payload).unwrap());
            let entry = ContextEntry::Message { seq: abide_model::Seq(1), message };
            for tokenizer in [Tokenizer::estimate(), Tokenizer::for_model(Some("gpt-4"))] {
                let tokens = tokenizer.entry(&entry).total();
                assert!(tokens <= token_ceiling(&data), "{tokens}: {data}");
            }
        }
    }

    #[test]
    fn a_long_text_without_a_break_is_counted() {
        let counted = Tokenizer::for_model(Some("gpt-4o"));
        let tokens = counted.text(&"a".repeat(3 << 20));
        assert!((300_000..500_000).contains(&tokens), "{tokens}");
    }
}
