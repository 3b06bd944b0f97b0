//! Looks up the results of calls. A message with many results is parsed once.

use std::collections::HashMap;

use abide_model::{OUTCOME_UNKNOWN, Payload, Seq};

use crate::piece::{CallRef, CallResultRef, MessagePiece, PieceContent, RecordedMessage, finished};

/// Where the result of a call comes from.
pub(super) enum ResultSource<'a> {
    Message { seq: Seq, data: &'a Payload },
    Executed(&'a Payload),
    Unknown,
}

/// The parsed messages that contain results.
#[derive(Default)]
pub(super) struct ResultLookup<'a>(HashMap<Seq, Vec<MessageResults<'a>>>);

/// The results in a message.
struct MessageResults<'a> {
    data: &'a str,
    by_id: HashMap<String, ResultsOfId<'a>>,
}

/// The results for one call id, and how many of them were used.
#[derive(Default)]
struct ResultsOfId<'a> {
    pieces: Vec<MessagePiece<'a>>,
    given: usize,
}

impl<'a> ResultLookup<'a> {
    /// The result of a call, as a piece.
    pub(super) fn piece(
        &mut self,
        call: &CallRef<'a>,
        given: Option<&ResultSource<'a>>,
    ) -> MessagePiece<'a> {
        let found = match given {
            Some(ResultSource::Message { seq, data }) => self.in_message(*seq, data, &call.id),
            Some(ResultSource::Executed(data)) => {
                finished(data).map(|outcome| MessagePiece::new(PieceContent::Result(outcome)))
            }
            Some(ResultSource::Unknown) | None => None,
        };
        found.unwrap_or_else(|| {
            let pieces = vec![MessagePiece::text(OUTCOME_UNKNOWN)];
            MessagePiece::new(PieceContent::Result(CallResultRef {
                id: call.id.clone(),
                ok: Some(false),
                pieces,
            }))
        })
    }

    /// The next result for this id in a message, which may hold several; the first one if there are
    /// no more.
    fn in_message(&mut self, seq: Seq, data: &'a Payload, id: &str) -> Option<MessagePiece<'a>> {
        let held = self.0.entry(seq).or_default();
        let at = held.iter().position(|held| held.data == data.as_str()).unwrap_or_else(|| {
            held.push(MessageResults::of(data));
            held.len() - 1
        });
        let of_id = held.get_mut(at)?.by_id.get_mut(id)?;
        let piece = of_id.pieces.get(of_id.given).or(of_id.pieces.first());
        of_id.given += 1;
        piece.cloned()
    }
}

impl<'a> MessageResults<'a> {
    fn of(data: &'a Payload) -> Self {
        let mut by_id: HashMap<String, ResultsOfId<'a>> = HashMap::new();
        for piece in RecordedMessage::of(data).map(|recorded| recorded.pieces).unwrap_or_default() {
            if let PieceContent::Result(outcome) = &piece.sort {
                by_id.entry(outcome.id.as_ref().to_owned()).or_default().pieces.push(piece);
            }
        }
        Self { data: data.as_str(), by_id }
    }
}
