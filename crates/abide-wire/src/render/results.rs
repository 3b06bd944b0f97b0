//! Looks up the results of calls. The results of a message with many are gathered once.

use std::collections::HashMap;

use abide_model::message::{CallPiece, MessagePiece, PieceContent, RecordedMessage, ResultPiece};
use abide_model::{OUTCOME_UNKNOWN, Payload, RecordedResult, Seq};

/// The messages that contain results.
#[derive(Default)]
pub(super) struct ResultLookup<'a>(HashMap<Seq, Vec<MessageResults<'a>>>);

/// A recorded result, and its event.
pub(super) type ResultSource<'a> = (Seq, &'a RecordedResult);

/// The results in a message.
struct MessageResults<'a> {
    data: &'a Payload,
    by_id: HashMap<&'a str, ResultsOfId<'a>>,
}

/// The results for one call id, and how many of them were used.
#[derive(Default)]
struct ResultsOfId<'a> {
    pieces: Vec<&'a MessagePiece>,
    given: usize,
}

impl<'a> ResultLookup<'a> {
    /// The result of a call, as a piece; one that says so if there is none.
    pub(super) fn piece(
        &mut self,
        call: &CallPiece,
        given: Option<ResultSource<'a>>,
    ) -> MessagePiece {
        let new = |result| MessagePiece::new(PieceContent::Result(Box::new(result)));
        let found = match given {
            Some((seq, RecordedResult::Message(message))) => {
                self.in_message(seq, message, &call.id).cloned()
            }
            Some((_, RecordedResult::Executed(data))) => ResultPiece::finished(data).map(new),
            None => None,
        };
        found.unwrap_or_else(|| {
            let pieces = vec![MessagePiece::text(OUTCOME_UNKNOWN)];
            new(ResultPiece { id: call.id.clone(), ok: Some(false), pieces })
        })
    }

    /// The next result for this id in a message, which may hold several; the first one if there are
    /// no more.
    fn in_message(
        &mut self,
        seq: Seq,
        message: &'a RecordedMessage,
        id: &str,
    ) -> Option<&'a MessagePiece> {
        let held = self.0.entry(seq).or_default();
        let at = held.iter().position(|held| held.data == message.data()).unwrap_or_else(|| {
            held.push(MessageResults::of(message));
            held.len() - 1
        });
        let of_id = held.get_mut(at)?.by_id.get_mut(id)?;
        let piece = of_id.pieces.get(of_id.given).or(of_id.pieces.first());
        of_id.given += 1;
        piece.copied()
    }
}

impl<'a> MessageResults<'a> {
    fn of(message: &'a RecordedMessage) -> Self {
        let mut by_id: HashMap<&str, ResultsOfId<'a>> = HashMap::new();
        for piece in &message.pieces {
            if let Some(result) = piece.result() {
                by_id.entry(&result.id).or_default().pieces.push(piece);
            }
        }
        Self { data: message.data(), by_id }
    }
}
