//! Counts beside those of tiktoken, which `data/golden.py` wrote to `golden.json`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use abide_tokens::Encoding;
use serde::Deserialize;

const ENCODINGS: [Encoding; 2] = [Encoding::O200kBase, Encoding::Cl100kBase];

#[derive(Deserialize)]
struct Golden {
    texts: Vec<Text>,
    random: Random,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    counts: [usize; 2],
}

#[derive(Deserialize)]
struct Random {
    seed: u64,
    texts: usize,
    fragments: Vec<String>,
    sums: [usize; 2],
    digests: [String; 2],
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden.json")).unwrap()
}

#[test]
fn each_text_has_the_tokens_that_tiktoken_counts() {
    let texts = golden().texts;
    assert!(texts.len() > 50);
    let wrong: Vec<_> = texts
        .iter()
        .map(|text| (text, ENCODINGS.map(|encoding| encoding.count(&text.text))))
        .filter(|(text, counts)| text.counts != *counts)
        .map(|(text, counts)| (&text.text, text.counts, counts))
        .collect();
    assert!(wrong.is_empty(), "text, expected, counted: {wrong:#?}");
}

#[test]
fn random_texts_have_the_tokens_that_tiktoken_counts() {
    let random = golden().random;
    let (mut sums, mut digests) = ([0; 2], [0xcbf2_9ce4_8422_2325_u64; 2]);
    let mut numbers = SplitMix(random.seed);
    for _ in 0..random.texts {
        let text = random.text(&mut numbers);
        for (number, encoding) in ENCODINGS.iter().enumerate() {
            let count = encoding.count(&text);
            sums[number] += count;
            digests[number] = (digests[number] ^ count as u64).wrapping_mul(0x100_0000_01b3);
        }
    }
    assert_eq!(sums, random.sums);
    assert_eq!(digests.map(|digest| format!("{digest:016x}")), random.digests);
}

impl Random {
    /// The next text, as `random_texts` in `golden.py` makes it.
    fn text(&self, numbers: &mut SplitMix) -> String {
        let all = self.fragments.len() as u64;
        let kinds = if numbers.next().is_multiple_of(4) { 3 } else { all };
        let first = numbers.next();
        let length = numbers.next() % 60;
        (0..length)
            .map(|_| {
                let which = first.wrapping_add(numbers.next() % kinds);
                self.fragments[(which % all) as usize].as_str()
            })
            .collect()
    }
}

struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}
