//! The encodings: a vocabulary and a split pattern each.

use std::sync::LazyLock;

use crate::merge::Merger;
use crate::split::{SplitPattern, SplitPieces};
use crate::vocabulary::Vocabulary;

static O200K: LazyLock<Vocabulary> =
    LazyLock::new(|| Vocabulary::unpack(include_bytes!("../data/o200k_base.merges")));
static CL100K: LazyLock<Vocabulary> =
    LazyLock::new(|| Vocabulary::unpack(include_bytes!("../data/cl100k_base.merges")));

/// An encoding of text as tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `o200k_base`: GPT-4o and later models.
    O200kBase,
    /// `cl100k_base`: GPT-4 and GPT-3.5.
    Cl100kBase,
}

impl Encoding {
    /// The number of tokens of a text.
    ///
    /// Takes time linear in the length of the text. The first count in a process unpacks the
    /// vocabulary.
    #[must_use]
    pub fn count(self, text: &str) -> usize {
        self.count_with(&mut Merger::default(), text)
    }

    pub(crate) fn count_with(self, merger: &mut Merger, text: &str) -> usize {
        let vocabulary = self.vocabulary();
        SplitPieces::new(self.pattern(), text).map(|piece| merger.count(vocabulary, piece)).sum()
    }

    pub(crate) fn vocabulary(self) -> &'static Vocabulary {
        match self {
            Self::O200kBase => &O200K,
            Self::Cl100kBase => &CL100K,
        }
    }

    const fn pattern(self) -> SplitPattern {
        match self {
            Self::O200kBase => SplitPattern::O200k,
            Self::Cl100kBase => SplitPattern::Cl100k,
        }
    }
}
