//! The seeds of random draws.

/// Seeds, one per random node, if the file specifies them: equal seeds draw equal numbers.
pub struct Seeds(Option<u32>);

impl Seeds {
    /// Creates seeds that count from a number.
    pub fn new(seed: Option<u32>) -> Seeds {
        Seeds(seed)
    }

    /// Returns the next seed.
    pub fn draw(&mut self) -> Option<u32> {
        let seed = self.0?;
        self.0 = Some(seed.wrapping_add(1));
        Some(seed)
    }
}
