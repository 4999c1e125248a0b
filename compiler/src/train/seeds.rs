//! The seeds of random draws.

/// Seeds, one for each node that draws, where the file is to have them: implementations draw the same
/// from equal ones.
pub struct Seeds(Option<u32>);

impl Seeds {
    /// Those from a number on.
    pub fn new(seed: Option<u32>) -> Seeds {
        Seeds(seed)
    }

    /// The next one.
    pub fn draw(&mut self) -> Option<u32> {
        let seed = self.0?;
        self.0 = Some(seed.wrapping_add(1));
        Some(seed)
    }
}
