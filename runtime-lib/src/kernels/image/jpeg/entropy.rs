//! Bits, and the Huffman codes in them.

use alloc::vec::Vec;

/// The codes that the file has said so far.
#[derive(Default)]
pub(super) struct Tables {
    /// Those of the first coefficient of a block.
    pub first: [Option<Codes>; 4],
    /// Those of the others.
    pub rest: [Option<Codes>; 4],
}

/// Codes of up to 16 bits for bytes.
pub(super) struct Codes {
    /// By the next eight bits: how long the code is and what it stands for; 0 for longer ones.
    short: [(u8, u8); 256],
    /// For each length: the first code that is too large for it, as if all were 16 bits long.
    ends: [u32; 16],
    /// For each length: what to add to a code for the place of its symbol.
    offsets: [i32; 16],
    symbols: Vec<u8>,
}

impl Codes {
    /// The codes of which there are so many of each length, and what they stand for.
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

/// The bits of the coded data, up to the next marker.
pub(super) struct Bits<'f> {
    data: &'f [u8],
    /// The next bits, the first of them highest.
    bits: u64,
    count: u32,
}

impl<'f> Bits<'f> {
    pub fn new(data: &'f [u8]) -> Bits<'f> {
        Bits { data, bits: 0, count: 0 }
    }

    /// Takes in whole bytes, till there are 32 bits or no more data.
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

    /// The next bits as a whole number: up to 16.
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

    /// The next bit.
    pub fn bit(&mut self) -> Option<bool> {
        Some(self.take(1)? == 1)
    }

    /// A number of `count` bits, of which those that start with 0 stand for the negative ones.
    #[inline]
    pub fn signed(&mut self, count: u8) -> Option<i32> {
        let found = self.take(count)?;
        let half = (1 << count) >> 1;
        Some(if found < half { found - (1 << count) + 1 } else { found })
    }

    /// The next symbol.
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

    /// Goes on behind the restart marker that must come next.
    pub fn restart(&mut self) -> Option<()> {
        let [0xff, 0xd0..=0xd7, rest @ ..] = self.after() else { return None };
        *self = Bits::new(rest);
        Some(())
    }

    /// What follows the coded data: the next marker.
    pub fn after(&self) -> &'f [u8] {
        let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff);
        let at = self.data.windows(2).position(is_marker);
        at.map_or(&[], |at| &self.data[at..])
    }
}
