//! Convolutions whose weights stand in pairs of `bfloat16` numbers. Where the processor does not multiply
//! pairs, all weights are widened first.

use super::{Pairs, UNIT, all};
use crate::activation_fn::Activation;
use crate::conv::{self, Conv, Tile};
use crate::gemm::Epilogue;
use crate::simd::{has_pairs, pair};

/// How many elements of scratch memory [`conv_bf16`] needs at least.
pub const fn conv_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::pairs_in_blocks_scratch(geometry);
    let wide = conv::packed_blocks_len(geometry) + conv::conv_in_blocks_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// [`conv::conv_in_blocks`] of an even number of channels, where `w` has the bits of `bfloat16` numbers,
/// in the order of [`conv::pack_blocks`], but those of two neighboring channels as one of pairs: the first
/// has the lower bits.
///
/// Where the processor multiplies pairs, `x` is rounded to `bfloat16`, too.
// Inlined, so that a program has no functions but those that its models name.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "four operands, each on its own")]
pub fn conv_bf16(
    x: &[f32],
    w: &[u32],
    bias: Option<&[f32]>,
    add: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| blocks_bf16((x, w), [bias, add], y, scratch, geometry, f);
    Epilogue::within_all(f, y, compute);
}

#[inline(never)]
fn blocks_bf16(
    (x, w): (&[f32], &[u32]),
    addends: [Option<&[f32]>; 2],
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Epilogue<f32>,
) {
    if has_pairs() {
        return conv::pairs_in_blocks([x, pair::words(w)], addends, y, scratch, &geometry, f);
    }
    let (wide, scratch) = scratch.split_at_mut(conv::packed_blocks_len(&geometry));
    all(&Pairs(w), wide, UNIT);
    conv::sums_in_blocks([x, wide], addends, y, scratch, &geometry, f);
}

/// How many elements of scratch memory [`to_blocks_bf16`] needs.
pub const fn to_blocks_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::columns_to_blocks_scratch(geometry);
    let wide = conv::packed_blocks_len(geometry) + conv::conv_to_blocks_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// [`conv::conv_to_blocks`] of images whose windows are two columns apart, where `w` has the bits of
/// `bfloat16` numbers, in the order of [`conv::pack_blocks`], but those of two neighboring columns as one of
/// pairs: the first has the lower bits. Columns of the image, of the window and of the padding before it are
/// even numbers.
///
/// Where the processor multiplies pairs, `x` is rounded to `bfloat16`, too.
// Inlined, so that a program has no functions but those that its models name.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "four operands, each on its own")]
pub fn to_blocks_bf16(
    x: &[f32],
    w: &[u32],
    bias: Option<&[f32]>,
    add: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| columns_bf16((x, w), [bias, add], y, scratch, geometry, f);
    Epilogue::within_all(f, y, compute);
}

#[inline(never)]
fn columns_bf16(
    (x, w): (&[f32], &[u32]),
    addends: [Option<&[f32]>; 2],
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Epilogue<f32>,
) {
    if has_pairs() {
        return conv::columns_to_blocks([x, pair::words(w)], addends, y, scratch, &geometry, f);
    }
    let (wide, scratch) = scratch.split_at_mut(conv::packed_blocks_len(&geometry));
    all(&Pairs(w), wide, UNIT);
    conv::sums_to_blocks([x, wide], addends, y, scratch, &geometry, f);
}

/// How many elements of scratch memory [`winograd_bf16`] needs.
pub const fn winograd_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = conv::pairs_of_tiles_scratch(geometry);
    let wide = conv::packed_winograd_len(geometry, Tile::Two);
    let wide = wide + conv::sums_of_tiles_scratch(geometry);
    if pairs > wide { pairs } else { wide }
}

/// [`conv_bf16`] for windows of 3 × 3 one step apart, by tiles of 2 × 2 outputs. The weights are in the order
/// of [`conv::pack_winograd`], in pairs likewise.
///
/// Where the processor multiplies pairs, what `x` is transformed to is rounded to `bfloat16`, too.
// Inlined, so that a program has no functions but those that its models name.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "four operands, each on its own")]
pub fn winograd_bf16(
    x: &[f32],
    w: &[u32],
    bias: Option<&[f32]>,
    add: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| tiles_bf16((x, w), [bias, add], y, scratch, geometry, f);
    Epilogue::within_all(f, y, compute);
}

#[inline(never)]
fn tiles_bf16(
    (x, w): (&[f32], &[u32]),
    addends: [Option<&[f32]>; 2],
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Epilogue<f32>,
) {
    if has_pairs() {
        return conv::pairs_of_tiles([x, pair::words(w)], addends, y, scratch, &geometry, f);
    }
    let len = conv::packed_winograd_len(&geometry, Tile::Two);
    let (wide, scratch) = scratch.split_at_mut(len);
    all(&Pairs(w), wide, UNIT);
    conv::sums_of_tiles([x, wide], addends, y, scratch, &geometry, f);
}
