//! One pass over the coded data, which fills in coefficients or makes them more precise.

use super::{
    Block, ZIGZAG,
    entropy::{Bits, Codes, Tables},
    frame::Frame,
};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// What a scan is of.
pub(super) struct Scan {
    /// The components, with the tables of their first and of their other coefficients.
    pub components: Vec<(usize, usize, usize)>,
    /// Which coefficients of each block.
    band: RangeInclusive<usize>,
    /// How many low bits were known after the last scan of the same; 0 in the first one.
    before: u8,
    /// How many low bits are still open.
    low: u8,
}

/// What changes from block to block.
#[derive(Default)]
struct State {
    /// The last first coefficients of each component.
    last: [i32; 4],
    /// How many blocks still have nothing more to say.
    empty: u32,
}

/// A function that reads what a scan says of one block.
type ReadBlock = fn(&Scan, &mut Bits<'_>, &mut State, Entry<'_>, &mut Block<i16>) -> Option<()>;

/// What a block's component has to do with it.
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
        // The first coefficients come alone, the others of one component at a time.
        let first = *band.start() == 0;
        let fits = !frame.progressive
            || if first { *band.end() == 0 } else { components.len() == 1 && !band.is_empty() };
        let known = fits && *band.end() < 64 && low <= 13 && !components.is_empty();
        known.then_some(Scan { components, band, before, low })
    }

    /// Reads all blocks, and gives what follows the data.
    pub fn run<'f>(
        &self,
        frame: &mut Frame,
        tables: &Tables,
        restart: usize,
        data: &'f [u8],
    ) -> Option<&'f [u8]> {
        let read: ReadBlock = match (frame.progressive, *self.band.start(), self.before) {
            (false, ..) => Scan::whole,
            (true, 0, 0) => Scan::first,
            (true, 0, _) => Scan::first_again,
            (true, _, 0) => Scan::others,
            (true, ..) => Scan::others_again,
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

    /// How many units the scan has, down and right: a single component has no more blocks than
    /// it has samples for.
    fn units(&self, frame: &Frame) -> [usize; 2] {
        match self.components.as_slice() {
            [(place, ..)] => frame.components[*place].sizes.map(|size| size.div_ceil(8)),
            _ => frame.units(),
        }
    }

    /// All coefficients of a block of a sequential file.
    fn whole(
        &self,
        bits: &mut Bits<'_>,
        state: &mut State,
        entry: Entry<'_>,
        block: &mut Block<i16>,
    ) -> Option<()> {
        self.first(bits, state, entry, block)?;
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
                    put(block, k, bits.signed(size)?)?;
                    k += 1;
                }
            }
        }
        Some(())
    }

    /// The first coefficient of a block: how far it is from that of the last.
    fn first(
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
        put(block, 0, last.wrapping_shl(self.low.into()))
    }

    /// One more bit of the first coefficient.
    fn first_again(
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

    /// The other coefficients of a band.
    fn others(
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
                    put(block, k, bits.signed(size)? << self.low)?;
                    k += 1;
                }
            }
        }
        Some(())
    }

    /// One more bit of the coefficients of a band that are not zero, and those that now are not.
    fn others_again(
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
                put(block, k, new)?;
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

/// How many blocks, the present one among them, have nothing more to say.
fn run(bits: &mut Bits<'_>, zeros: u8) -> Option<u32> {
    u32::try_from((1 << zeros) + bits.take(zeros)?).ok()
}

/// Sets the `k`th coefficient in the order of the file.
fn put(block: &mut Block<i16>, k: usize, value: i32) -> Option<()> {
    // A file that says more than 16 bits is broken; other programs keep the low ones, too.
    block[usize::from(*ZIGZAG.get(k)?)] = value as i16;
    Some(())
}
