//! Random text from a seed: a secret is made when a test runs, so that none stands in a source.

/// A generator of random numbers (splitmix64).
pub struct RandomText(pub u64);

impl RandomText {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn draw(&mut self, set: &[u8], length: usize) -> String {
        (0..length).map(|_| char::from(set[self.below(set.len())])).collect()
    }

    pub fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    pub fn base64(&mut self, length: usize) -> String {
        self.draw(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", length)
    }

    pub fn hex(&mut self, length: usize) -> String {
        self.draw(b"0123456789abcdef", length)
    }

    pub fn uuid(&mut self) -> String {
        [8, 4, 4, 4, 12].map(|length| self.hex(length)).join("-")
    }
}
