//! Where the power goes: chosen by seed and number, so that a cut can be made again.

use abide_testkit::Random;

use crate::cut::Honesty;
use crate::log::Record;
use crate::story::Story;
use crate::trace::Trace;

/// One cut.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) number: usize,
    pub(crate) at: usize,
    pub(crate) honesty: Honesty,
    pub(crate) random: Random,
}

impl Cut {
    /// A cut on an honest disk: at any moment, right after an answer, or right before a flush, when
    /// the most is in the cache. Of four such moments it is the fullest: most flushes cover little.
    pub(crate) fn honest(trace: &Trace, number: usize) -> Self {
        let mut random = Random::new(trace.head.seed ^ (number as u64).wrapping_mul(0x9e37_79b9));
        let (begun, end) = (trace.head.story.begun, trace.records.len());
        let any = begun + random.index(end - begun + 1);
        let at = match number % 4 {
            0 => any,
            1 => (answer(&trace.head.story, any) + random.index(4)).min(end),
            _ => fullest(trace, &mut random, begun),
        };
        Self { number, at, honesty: Honesty::Honest, random }
    }

    /// A cut on a disk that lies about its flushes, under an event that was acknowledged: nothing
    /// that was written since it was sent, or only a part by chance.
    pub(crate) fn lying(trace: &Trace, number: usize) -> Self {
        let mut random = Random::new(trace.head.seed ^ (number as u64).wrapping_mul(0x51f1_5eed));
        let story = &trace.head.story;
        let sessions: Vec<_> =
            story.sessions.iter().filter(|session| session.leaves == crate::story::NEVER).collect();
        let session = sessions[random.index(sessions.len())];
        let event = random.index(session.acknowledged.len());
        let (from, at) = (session.sent[event], session.acknowledged[event]);
        let honesty = match number % 2 {
            0 => Honesty::Stands { from },
            _ => Honesty::Lies { from },
        };
        Self { number, at, honesty, random }
    }
}

/// The first answer at or after a moment.
fn answer(story: &Story, from: usize) -> usize {
    let answers = story.sessions.iter().flat_map(|session| &session.acknowledged);
    answers.copied().filter(|at| *at >= from).min().unwrap_or(from)
}

/// Of some moments right before a flush the one with the most writes since the flush before.
fn fullest(trace: &Trace, random: &mut Random, begun: usize) -> usize {
    let until_flush = |records: &mut dyn Iterator<Item = &Record>| {
        records.take_while(|record| **record != Record::Flush).count()
    };
    let moments = (0..4).map(|_| {
        let any = begun + random.index(trace.records.len() - begun + 1);
        any + until_flush(&mut trace.records[any..].iter())
    });
    let pending = |at: &usize| until_flush(&mut trace.records[..*at].iter().rev());
    moments.max_by_key(pending).unwrap_or(begun)
}
