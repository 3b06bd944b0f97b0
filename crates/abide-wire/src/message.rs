//! What a message says, whatever the form it was recorded in.

use abide_model::Payload;
use serde_json::value::RawValue;

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
#[must_use]
pub fn read(_data: &Payload) -> Option<Said> {
    None
}
