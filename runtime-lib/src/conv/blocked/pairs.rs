//! Convolutions whose weights stand in pairs of `bfloat16` numbers, for a processor that multiplies
//! such: channels of the input are rounded to pairs, and a convolution of half as many pairs follows.

use super::{Applied, Conv, Groups, LARGE, Plane, convolve, within};
use crate::activation_fn::Activation;
use crate::gemm::{BLOCK, PAIRS};
use crate::simd::pair::{self, PAIR};
use crate::simd::{Simd, WithSimd, dispatch_pairs};
use crate::threads;

/// How many elements of scratch memory [`pairs_in_blocks`] needs.
pub(crate) const fn pairs_in_blocks_scratch(geometry: &Conv<'_>) -> usize {
    let pairs = of_pairs(geometry);
    let plane = Plane::of(&pairs, pairs.channels, PAIRS, LARGE);
    plane.image() + plane.scratch()
}

/// The convolution of pairs instead of channels, of which there is an even number.
const fn of_pairs<'a>(geometry: &Conv<'a>) -> Conv<'a> {
    Conv { batch: 1, channels: geometry.channels / PAIR, ..*geometry }
}

/// [`conv_in_blocks`](super::conv_in_blocks) of an even number of channels, with weights that are
/// packed likewise, but those of two neighboring channels in a pair.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "four operands, each on its own")]
pub(crate) fn pairs_in_blocks(
    x: &[f32],
    w: &[f32],
    bias: Option<&[f32]>,
    add: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let of_one = of_pairs(&geometry);
    let groups = Groups::of(&of_one, 1);
    let [from, to] = [x.len(), y.len()].map(|len| len / geometry.batch.max(1));
    let (pairs, scratch) = scratch.split_at_mut(from / PAIR);
    within(f, y, |y, f: Applied| {
        for (image, y) in y.chunks_exact_mut(to.max(1)).enumerate() {
            round(&x[image * from..][..from], pairs);
            let add = add.map(|add| &add[image * to..][..to]);
            convolve::<PAIRS>([pairs, w], [bias, add], y, scratch, &groups, f);
        }
    });
}

/// Rounds numbers, of which neighbors become pairs, on several threads where that pays.
fn round(x: &[f32], pairs: &mut [f32]) {
    threads::share(pairs, UNIT, x.len(), |first, pairs| {
        let x = &x[first * UNIT * PAIR..][..pairs.len() * PAIR];
        dispatch_pairs(Round { x, pairs });
    });
}

/// How many pairs are made at once.
const UNIT: usize = 64 * BLOCK;

/// Numbers, of which neighbors become pairs.
struct Round<'a> {
    x: &'a [f32],
    pairs: &'a mut [f32],
}

impl WithSimd for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let whole = self.pairs.len() - self.pairs.len() % S::LANES;
        let (pairs, rest) = self.pairs.split_at_mut(whole);
        for (pairs, x) in pairs.chunks_exact_mut(S::LANES).zip(self.x.chunks_exact(PAIR * S::LANES))
        {
            s.store(s.pairs([s.load(x), s.load(&x[S::LANES..])]), pairs);
        }
        for (pair, &x) in rest.iter_mut().zip(self.x[PAIR * whole..].as_chunks().0) {
            *pair = pair::of(x);
        }
    }
}
