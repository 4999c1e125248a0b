//! Choices made of bytes, so that a coverage-guided fuzzer can change one at a time.

/// The bytes that are left. After the last one, every choice is the first.
pub struct Choices<'b>(&'b [u8]);

impl<'b> Choices<'b> {
    /// Makes choices of these bytes.
    pub fn new(bytes: &'b [u8]) -> Choices<'b> {
        Choices(bytes)
    }

    /// Returns whether there are bytes left.
    pub fn has_more(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns a byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Returns a number below `count`, which is at most 65536; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        let number = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        number.checked_rem(count).unwrap_or(0)
    }

    /// Returns one of the elements.
    pub fn of<'e, T>(&mut self, elements: &'e [T]) -> Option<&'e T> {
        elements.get(self.below(elements.len()))
    }

    /// Returns the index of one of the elements that `wanted` accepts.
    pub fn position<T>(&mut self, elements: &[T], wanted: impl Fn(&T) -> bool) -> Option<usize> {
        let found: Vec<usize> = (0..elements.len()).filter(|&i| wanted(&elements[i])).collect();
        self.of(&found).copied()
    }

    /// Returns an integer: mostly a small one, or one at which arithmetic breaks.
    pub fn int(&mut self) -> i64 {
        const EDGES: [i64; 12] = [
            i64::MIN,
            i64::MIN + 1,
            i64::MAX,
            1 << 31,
            -(1 << 31),
            1 << 32,
            1 << 62,
            65536,
            256,
            257,
            1000,
            100_000,
        ];
        match self.byte() {
            byte @ 0..=199 => i64::from(byte % 20) - 4,
            _ => EDGES[self.below(EDGES.len())],
        }
    }

    /// Returns a number: mostly a small one, or one at which arithmetic breaks.
    pub fn float(&mut self) -> f32 {
        const EDGES: [f32; 8] = [
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            f32::MIN_POSITIVE,
            -0.0,
            1e9,
            1e-9,
        ];
        match self.byte() {
            byte @ 0..=199 => f32::from(byte) / 16.0 - 4.0,
            _ => EDGES[self.below(EDGES.len())],
        }
    }
}
