//! What a message says, whatever the form it was recorded in.

use abide_model::Payload;
use serde_json::value::RawValue;

use crate::json::Text;
use crate::piece::{self, Piece, Recorded, Sort};

/// A message, read.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// `system`, `developer`, `user`, `assistant`, `tool`, or what the agent calls it.
    pub role: String,
    /// What it holds, in order.
    pub parts: Vec<Part>,
}

/// A part of a message.
#[derive(Debug, Clone)]
pub enum Part {
    /// Text.
    Text(String),
    /// The model thinking aloud.
    Thinking {
        /// The thought; empty where it is withheld.
        text: String,
        /// The provider's signature over it.
        signature: Option<String>,
    },
    /// An image.
    Image(Image),
    /// The model asks for a tool.
    Call(Call),
    /// What a tool gave.
    Result(CallResult),
    /// The model refuses.
    Refusal(String),
    /// Anything else, as it is.
    Other(Box<RawValue>),
}

/// Where an image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// At an address, which may be a `data:` one.
    Url(String),
    /// Here, in base64.
    Data {
        /// What sort of image.
        media_type: String,
        /// Its bytes.
        base64: String,
    },
}

/// A use of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Joins it with its result.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// With what: JSON as the model wrote it, which may be broken.
    pub arguments: String,
}

/// What a tool gave.
#[derive(Debug, Clone)]
pub struct CallResult {
    /// Of which call.
    pub id: String,
    /// Whether it went well, where that is said.
    pub ok: Option<bool>,
    /// What it gave.
    pub parts: Vec<Part>,
}

/// Reads the data of a `message.added`, in whichever form it is; `None` when it is no message.
///
/// Half of a surrogate pair, which no text can hold, reads as U+FFFD.
#[must_use]
pub fn read(data: &Payload) -> Option<Said> {
    let recorded = Recorded::of(data)?;
    let parts = recorded.pieces.into_iter().filter_map(part).collect();
    Some(Said { role: recorded.role.into_owned(), parts })
}

/// Reads the data of a `tool.called`; `None` when it does not name its call.
#[must_use]
pub fn read_call(data: &Payload) -> Option<Call> {
    piece::begun(data).map(Call::from)
}

impl From<piece::Call<'_>> for Call {
    fn from(call: piece::Call<'_>) -> Self {
        Self {
            arguments: call.arguments.text().into_owned(),
            id: call.id.into_owned(),
            name: call.name.into_owned(),
        }
    }
}

fn part(piece: Piece<'_>) -> Option<Part> {
    let own = |text: Text<'_>| text.into_decoded().into_owned();
    Some(match piece.sort {
        Sort::Text(text) => Part::Text(own(text)),
        Sort::Thinking { text, signature } => {
            Part::Thinking { text: own(text), signature: signature.map(own) }
        }
        Sort::Image(piece::Image::Url(url)) => Part::Image(Image::Url(own(url))),
        Sort::Image(piece::Image::Data { media_type, base64 }) => {
            Part::Image(Image::Data { media_type: own(media_type), base64: own(base64) })
        }
        Sort::Call(call) => Part::Call(call.into()),
        Sort::Result(result) => Part::Result(CallResult {
            id: result.id.into_owned(),
            ok: result.ok,
            parts: result.pieces.into_iter().filter_map(part).collect(),
        }),
        Sort::Refusal(text) => Part::Refusal(own(text)),
        Sort::Other => Part::Other(piece.raw?.to_owned()),
    })
}
