//! The layouts of block-quantized weights: ONNX Runtime's, and that of the kernels.
//!
//! ONNX Runtime stores the codes of a column one after another, the first in the lowest bits of a
//! byte. The kernels read panels of 16 columns: a word of 32 bits of each, then the next words.

use super::COLS;
use super::codes::{Codes, Fp4, Nf4};
use crate::Number;
use crate::error::Result;
use crate::loops::index::index;
use crate::threads;

/// The bytes of a word of codes.
const WORD: usize = 4;

/// Returns the number of words that [`pack_codes`] writes for `n` columns of `k` codes.
pub const fn packed_codes_len(n: usize, k: usize, bits: usize) -> usize {
    n.next_multiple_of(COLS) * (k * bits).div_ceil(8 * WORD)
}

/// Packs the codes of columns of `column` bytes each, a multiple of 4, into panels of `rows` words
/// per column.
pub fn pack_codes(codes: &[u8], y: &mut [u32], column: usize, rows: usize) {
    let panels = y.chunks_exact_mut((rows * COLS).max(1));
    for (panel, columns) in panels.zip(codes.chunks((column * COLS).max(1))) {
        for (j, column) in columns.chunks_exact(column).enumerate() {
            let words = column.as_chunks::<WORD>().0.iter().map(|&word| u32::from_le_bytes(word));
            panel[j..].iter_mut().step_by(COLS).zip(words).for_each(|(to, word)| *to = word);
        }
    }
}

/// Packs the elements of blocks, `blocks` for each column, into panels of 16 columns.
pub fn pack_per_block<T: Copy>(x: &[T], y: &mut [T], blocks: usize) {
    let panels = y.chunks_exact_mut((blocks * COLS).max(1));
    for (panel, columns) in panels.zip(x.chunks((blocks * COLS).max(1))) {
        for (j, column) in columns.chunks_exact(blocks).enumerate() {
            panel[j..].iter_mut().step_by(COLS).zip(column).for_each(|(to, &x)| *to = x);
        }
    }
}

/// The geometry of block-quantized weights in ONNX Runtime's layout: columns of `k` codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCodes {
    /// The number of codes of a column.
    pub k: usize,
    /// The number of codes of a block.
    pub block: usize,
    /// The number of bits of a code.
    pub bits: usize,
}

impl BlockCodes {
    /// Returns the bytes of `count` codes.
    const fn bytes(&self, count: usize) -> usize {
        (count * self.bits).div_ceil(8)
    }

    /// Returns code `i` of a sequence.
    #[inline(always)]
    fn code(&self, of: &[u8], i: usize) -> u8 {
        let bit = i * self.bits;
        let mask = ((1u32 << self.bits) - 1) as u8;
        of[bit / 8] >> (bit % 8) & mask
    }
}

/// The operands of [`dequantize_blocks`].
#[derive(Clone, Copy, Debug)]
pub struct BlockOperands<'a, T> {
    /// The codes.
    pub codes: &'a [u8],
    /// The scales of the blocks.
    pub scales: &'a [T],
    /// The zero points of the blocks, as codes: each column starts with a byte.
    pub zero_codes: Option<&'a [u8]>,
    /// The zero points of the blocks, as numbers.
    pub zero_points: Option<&'a [T]>,
    /// The block of each row, if rows are not in the order of blocks.
    pub groups: Option<&'a [i32]>,
}

/// Computes `y = (code - zero_point) · scale`, column by column.
///
/// # Errors
///
/// Returns an error for a row whose block is out of range.
pub fn dequantize_blocks<T: Number>(
    operands: BlockOperands<'_, T>,
    y: &mut [T],
    geometry: BlockCodes,
) -> Result {
    let BlockCodes { k, block, bits } = geometry;
    let blocks = k.div_ceil(block);
    for &group in operands.groups.unwrap_or_default() {
        index(group, blocks)?;
    }
    let column_bytes = geometry.bytes(blocks * block);
    let default = f64::from(1u32 << (bits - 1));
    share_columns(y, k, |n, y| {
        let codes = &operands.codes[n * column_bytes..];
        for (row, y) in y.iter_mut().enumerate() {
            let at = match operands.groups {
                Some(groups) => index(groups[row], blocks).unwrap_or(0),
                None => row / block,
            };
            let zero = match (operands.zero_codes, operands.zero_points) {
                (Some(zeros), _) => {
                    f64::from(geometry.code(&zeros[n * geometry.bytes(blocks)..], at))
                }
                (None, Some(zeros)) => zeros[n * blocks + at].to_f64(),
                (None, None) => default,
            };
            let scale = operands.scales[n * blocks + at].to_f64();
            *y = T::from_f64((f64::from(geometry.code(codes, row)) - zero) * scale);
        }
    });
    Ok(())
}

/// Calls `fill` with the index of each column of `k` elements and its elements.
fn share_columns<T: Number>(y: &mut [T], k: usize, fill: impl Fn(usize, &mut [T]) + Sync) {
    let cost = 4 * y.len();
    threads::share(y, k.max(1), cost, |first, y| {
        for (n, y) in y.chunks_mut(k.max(1)).enumerate() {
            fill(first + n, y);
        }
    });
}

/// Computes `y = number(code) · scale` for codes of the 4-bit floats of `bitsandbytes`, the first
/// in the upper bits of a byte. A block may span columns.
pub fn dequantize_fp4<T: Number>(codes: &[u8], scales: &[T], y: &mut [T], block: usize) {
    dequantize_table(codes, scales, y, block, Fp4);
}

/// Computes [`dequantize_fp4`] for the 4-bit normal floats of `bitsandbytes`.
pub fn dequantize_nf4<T: Number>(codes: &[u8], scales: &[T], y: &mut [T], block: usize) {
    dequantize_table(codes, scales, y, block, Nf4);
}

fn dequantize_table<T: Number>(
    codes: &[u8],
    scales: &[T],
    y: &mut [T],
    block: usize,
    kind: impl Codes,
) {
    share_columns(y, block, |n, y| {
        let scale = scales[n].to_f64();
        for (i, y) in (n * block..).zip(y) {
            let code = if i % 2 == 0 { codes[i / 2] >> 4 } else { codes[i / 2] & 15 };
            *y = T::from_f64(f64::from(kind.number(code)) * scale);
        }
    });
}
