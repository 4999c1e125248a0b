//! A scan: one pass over entropy-coded data, which reads coefficients or refines them.

use super::{
    Block, ZIGZAG,
    entropy::{Bits, Codes, Tables},
    frame::Frame,
};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// The header of a scan.
pub(super) struct Scan {
    /// The components, with the indices of their DC and AC tables.
    pub components: Vec<(usize, usize, usize)>,
    /// The range of coefficients of each block.
    band: RangeInclusive<usize>,
    /// The number of low bits that the previous scan of these coefficients did not read; 0 in the
    /// first scan.
    before: u8,
    /// The number of low bits that this scan does not read.
    low: u8,
}

/// The state between blocks.
#[derive(Default)]
struct State {
    /// The DC coefficient of the last block of each component.
    last: [i32; 4],
    /// The rest of an end-of-band run: the number of following blocks without further coefficients.
    empty: u32,
}

/// A function that reads one block of a scan.
type ReadBlock = fn(&Scan, &mut Bits<'_>, &mut State, Entry<'_>, &mut Block<i16>) -> Option<()>;

/// The component of a block, and its tables.
#[derive(Clone, Copy)]
struct Entry<'t> {
    place: usize,
    first: Option<&'t Codes>,
    rest: Option<&'t Codes>,
}

impl Scan {
    pub fn read(body: &[u8], frame: &Frame) -> Option<Scan> {
        let (&count, rest) = body.split_first()?;
        let (parts, [start, end, bits]) = rest.split_at_checked(2 * usize::from(count))? else {
            return None;
        };
        let mut components: Vec<(usize, usize, usize)> = Vec::new();
        for part in parts.chunks_exact(2) {
            let found = frame.components.iter().position(|component| component.id == part[0])?;
            if components.iter().any(|&(component, ..)| component == found) {
                return None;
            }
            components.push((found, usize::from(part[1] >> 4), usize::from(part[1] & 15)));
        }
        let (band, before, low) = if frame.progressive {
            (usize::from(*start)..=usize::from(*end), bits >> 4, bits & 15)
        } else {
            (0..=63, 0, 0)
        };
        // DC coefficients have separate scans; AC scans have one component.
        let first = *band.start() == 0;
        let fits = !frame.progressive
            || if first { *band.end() == 0 } else { components.len() == 1 && !band.is_empty() };
        let known = fits && *band.end() < 64 && low <= 13 && !components.is_empty();
        known.then_some(Scan { components, band, before, low })
    }

    /// Reads all blocks, and returns the rest of the data.
    pub fn run<'f>(
        &self,
        frame: &mut Frame,
        tables: &Tables,
        restart: usize,
        data: &'f [u8],
    ) -> Option<&'f [u8]> {
        let read: ReadBlock = match (frame.progressive, *self.band.start(), self.before) {
            (false, ..) => Scan::read_block,
            (true, 0, 0) => Scan::read_dc,
            (true, 0, _) => Scan::refine_dc,
            (true, _, 0) => Scan::read_ac,
            (true, ..) => Scan::refine_ac,
        };
        let (mut bits, mut state) = (Bits::new(data), State::default());
        let [rows, columns] = self.units(frame);
        for unit in 0..rows * columns {
            if restart > 0 && unit > 0 && unit.is_multiple_of(restart) {
                bits.restart()?;
                state = State::default();
            }
            let at = [unit / columns, unit % columns];
            for &(place, first, rest) in &self.components {
                let (first, rest) = (tables.first.get(first)?, tables.rest.get(rest)?);
                let entry = Entry { place, first: first.as_ref(), rest: rest.as_ref() };
                let component = &mut frame.components[place];
                let factors = if self.components.len() == 1 { [1, 1] } else { component.factors };
                for part in 0..factors[0] * factors[1] {
                    let row = at[0] * factors[0] + part / factors[1];
                    let column = at[1] * factors[1] + part % factors[1];
                    let block = &mut component.coefficients[row * component.blocks[1] + column];
                    read(self, &mut bits, &mut state, entry, block)?;
                }
            }
        }
        Some(bits.after())
    }

    /// Returns the number of units of the scan, vertically and horizontally. In a scan of one
    /// component, a unit is a block, and blocks without samples are left out.
    fn units(&self, frame: &Frame) -> [usize; 2] {
        match self.components.as_slice() {
            [(place, ..)] => frame.components[*place].sizes.map(|size| size.div_ceil(8)),
            _ => frame.units(),
        }
    }

    /// Reads all coefficients of a block of a sequential file.
    fn read_block(
        &self,
        bits: &mut Bits<'_>,
        state: &mut State,
        entry: Entry<'_>,
        block: &mut Block<i16>,
    ) -> Option<()> {
        self.read_dc(bits, state, entry, block)?;
        let codes = entry.rest?;
        let mut k = 1;
        while k < 64 {
            let symbol = bits.symbol(codes)?;
            let (zeros, size) = (usize::from(symbol >> 4), symbol & 15);
            match (zeros, size) {
                (15, 0) => k += 16,
                (_, 0) => return Some(()),
                _ => {
                    k += zeros;
                    set(block, k, bits.signed(size)?)?;
                    k += 1;
                }
            }
        }
        Some(())
    }

    /// Reads the DC coefficient of a block: its difference from the last one.
    fn read_dc(
        &self,
        bits: &mut Bits<'_>,
        state: &mut State,
        entry: Entry<'_>,
        block: &mut Block<i16>,
    ) -> Option<()> {
        let size = bits.symbol(entry.first?)?;
        let difference = if size <= 16 { bits.signed(size)? } else { return None };
        let last = &mut state.last[entry.place];
        *last = last.wrapping_add(difference);
        set(block, 0, last.wrapping_shl(self.low.into()))
    }

    /// Reads one more bit of the DC coefficient.
    fn refine_dc(
        &self,
        bits: &mut Bits<'_>,
        _: &mut State,
        _: Entry<'_>,
        block: &mut Block<i16>,
    ) -> Option<()> {
        if bits.bit()? {
            block[0] |= 1 << self.low;
        }
        Some(())
    }

    /// Reads the AC coefficients of a band.
    fn read_ac(
        &self,
        bits: &mut Bits<'_>,
        state: &mut State,
        entry: Entry<'_>,
        block: &mut Block<i16>,
    ) -> Option<()> {
        if state.empty > 0 {
            state.empty -= 1;
            return Some(());
        }
        let mut k = *self.band.start();
        while k <= *self.band.end() {
            let symbol = bits.symbol(entry.rest?)?;
            let (zeros, size) = (symbol >> 4, symbol & 15);
            match (zeros, size) {
                (15, 0) => k += 16,
                (_, 0) => {
                    state.empty = run(bits, zeros)? - 1;
                    break;
                }
                _ => {
                    k += usize::from(zeros);
                    set(block, k, bits.signed(size)? << self.low)?;
                    k += 1;
                }
            }
        }
        Some(())
    }

    /// Reads one more bit of the nonzero AC coefficients of a band, and the coefficients that
    /// become nonzero.
    fn refine_ac(
        &self,
        bits: &mut Bits<'_>,
        state: &mut State,
        entry: Entry<'_>,
        block: &mut Block<i16>,
    ) -> Option<()> {
        let mut k = *self.band.start();
        while state.empty == 0 && k <= *self.band.end() {
            let symbol = bits.symbol(entry.rest?)?;
            let (mut zeros, size) = (symbol >> 4, symbol & 15);
            let new = match size {
                0 if zeros < 15 => {
                    state.empty = run(bits, zeros)?;
                    break;
                }
                0 => None,
                1 => Some(if bits.bit()? { 1 << self.low } else { -1 << self.low }),
                _ => return None,
            };
            while k <= *self.band.end() {
                let coefficient = &mut block[usize::from(ZIGZAG[k])];
                if *coefficient != 0 {
                    self.refine(bits, coefficient)?;
                } else if zeros == 0 {
                    break;
                } else {
                    zeros -= 1;
                }
                k += 1;
            }
            if let Some(new) = new {
                set(block, k, new)?;
            }
            k += 1;
        }
        if state.empty > 0 {
            for &place in ZIGZAG.get(k..=*self.band.end()).unwrap_or_default() {
                let coefficient = &mut block[usize::from(place)];
                if *coefficient != 0 {
                    self.refine(bits, coefficient)?;
                }
            }
            state.empty -= 1;
        }
        Some(())
    }

    fn refine(&self, bits: &mut Bits<'_>, coefficient: &mut i16) -> Option<()> {
        let step = 1 << self.low;
        if bits.bit()? && *coefficient & step == 0 {
            let change = if *coefficient < 0 { -step } else { step };
            *coefficient = coefficient.wrapping_add(change);
        }
        Some(())
    }
}

/// Reads the length of an end-of-band run: the number of blocks without further coefficients,
/// including this one.
fn run(bits: &mut Bits<'_>, zeros: u8) -> Option<u32> {
    u32::try_from((1 << zeros) + bits.take(zeros)?).ok()
}

/// Sets coefficient `k`, counted in zigzag order.
fn set(block: &mut Block<i16>, k: usize, value: i32) -> Option<()> {
    // A file with more than 16 bits is invalid; other decoders also keep the low bits.
    block[usize::from(*ZIGZAG.get(k)?)] = value as i16;
    Some(())
}
