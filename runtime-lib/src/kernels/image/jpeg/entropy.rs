//! The bit reader, and Huffman codes.

use alloc::vec::Vec;

/// The Huffman tables that the file has defined so far.
#[derive(Default)]
pub(super) struct Tables {
    /// The tables of DC coefficients.
    pub first: [Option<Codes>; 4],
    /// The tables of AC coefficients.
    pub rest: [Option<Codes>; 4],
}

/// A Huffman table: codes of up to 16 bits for bytes.
pub(super) struct Codes {
    /// The length and the symbol of the code at the start of eight bits; length 0 for longer codes.
    short: [(u8, u8); 256],
    /// For each length, the end of its codes, as if padded to 16 bits.
    ends: [u32; 16],
    /// For each length, the number to add to a code for the index of its symbol.
    offsets: [i32; 16],
    symbols: Vec<u8>,
}

impl Codes {
    /// Creates the table from the number of codes of each length, and their symbols.
    pub fn new(lengths: &[u8; 16], symbols: &[u8]) -> Option<Codes> {
        let (mut short, mut ends, mut offsets) = ([(0, 0); 256], [0; 16], [0; 16]);
        let (mut code, mut place) = (0u32, 0usize);
        for (bits, &count) in (1u8..).zip(lengths) {
            let slot = usize::from(bits) - 1;
            offsets[slot] = i32::try_from(place).ok()? - i32::try_from(code).ok()?;
            for &symbol in symbols.get(place..place + usize::from(count))? {
                if bits <= 8 {
                    let first = usize::try_from(code).ok()? << (8 - bits);
                    short.get_mut(first..first + (1 << (8 - bits)))?.fill((bits, symbol));
                }
                code += 1;
            }
            place += usize::from(count);
            if code > 1 << bits {
                return None;
            }
            ends[slot] = code << (16 - bits);
            code <<= 1;
        }
        Some(Codes { short, ends, offsets, symbols: symbols.to_vec() })
    }
}

/// The bits of entropy-coded data, up to the next marker.
pub(super) struct Bits<'f> {
    data: &'f [u8],
    /// The next bits, the first in the highest position.
    bits: u64,
    count: u32,
}

impl<'f> Bits<'f> {
    pub fn new(data: &'f [u8]) -> Bits<'f> {
        Bits { data, bits: 0, count: 0 }
    }

    /// Reads whole bytes until there are 32 bits or no more data.
    fn fill(&mut self) {
        while self.count <= 56 {
            let byte = match *self.data {
                [0xff, 0, ref rest @ ..] => {
                    self.data = rest;
                    0xff
                }
                [0xff, ..] | [] => return,
                [byte, ref rest @ ..] => {
                    self.data = rest;
                    byte
                }
            };
            self.bits |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    /// Returns the next `count` bits as an integer, at most 16.
    #[inline]
    pub fn take(&mut self, count: u8) -> Option<i32> {
        let count = u32::from(count);
        if count == 0 {
            return Some(0);
        }
        if self.count < count {
            self.fill();
        }
        let found = i32::try_from(self.bits >> (64 - count)).ok()?;
        self.skip(count)?;
        Some(found)
    }

    fn skip(&mut self, count: u32) -> Option<()> {
        self.count = self.count.checked_sub(count)?;
        self.bits <<= count;
        Some(())
    }

    /// Returns the next bit.
    pub fn bit(&mut self) -> Option<bool> {
        Some(self.take(1)? == 1)
    }

    /// Returns the next `count` bits as a signed number: those that start with 0 encode the
    /// negative ones.
    #[inline]
    pub fn signed(&mut self, count: u8) -> Option<i32> {
        let found = self.take(count)?;
        let half = (1 << count) >> 1;
        Some(if found < half { found - (1 << count) + 1 } else { found })
    }

    /// Returns the next symbol.
    #[inline]
    pub fn symbol(&mut self, codes: &Codes) -> Option<u8> {
        if self.count < 16 {
            self.fill();
        }
        let next = u32::try_from(self.bits >> 48).ok()?;
        let (length, symbol) = codes.short[usize::try_from(next >> 8).ok()?];
        if length > 0 {
            self.skip(length.into())?;
            return Some(symbol);
        }
        let slot = codes.ends.iter().position(|&end| next < end)?;
        let code = i32::try_from(next >> (15 - slot)).ok()?;
        self.skip(u32::try_from(slot).ok()? + 1)?;
        codes.symbols.get(usize::try_from(code + codes.offsets[slot]).ok()?).copied()
    }

    /// Skips the restart marker that must come next.
    pub fn restart(&mut self) -> Option<()> {
        let [0xff, 0xd0..=0xd7, rest @ ..] = self.after() else { return None };
        *self = Bits::new(rest);
        Some(())
    }

    /// Returns the data from the next marker on.
    pub fn after(&self) -> &'f [u8] {
        let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff);
        let at = self.data.windows(2).position(is_marker);
        at.map_or(&[], |at| &self.data[at..])
    }
}
