//! Copies the input of a band, with padding, and with the columns grouped by phase.

use super::super::planes::Line;
use super::BLOCK;
use super::band::{Band, Plane, Unit};
use crate::microkernel::{PAIRS, interleave};
use crate::simd::bf16_pair::PAIR;
use crate::simd::{self, Simd, WithSimd, dispatch, dispatch_pairs};

/// The arguments of a copy of a band's input.
pub(super) struct Copy<'a> {
    pub band: &'a Band,
    pub plane: &'a Plane,
    /// The image.
    pub x: &'a [f32],
    /// The depth of the output.
    pub depth: usize,
    /// The first row, the number of rows, and the first column.
    pub at: [usize; 3],
    /// The destination.
    pub to: &'a mut [f32],
}

impl Band {
    /// Returns the input of the outputs at a depth, of `rows` rows from `row` on, from column `col`
    /// on: a part of `x`, or a copy in `scratch`.
    pub fn input<'x>(
        &self,
        plane: &Plane,
        x: &'x [f32],
        depth: usize,
        [row, rows, col]: [usize; 3],
        scratch: &'x mut [f32],
    ) -> &'x [f32] {
        if !self.copied {
            let start = depth * plane.d.stride * plane.input_plane();
            return x.get(start + row * self.row + col * plane.unit.to..).unwrap_or(&[]);
        }
        let at = [row, rows, col];
        let copy = Copy { band: self, plane, x, depth, at, to: &mut *scratch };
        match plane.unit {
            Unit { groups: 2, .. } => dispatch(copy.of(Interleaved::<2>)),
            Unit { groups: 4, .. } => dispatch(copy.of(Interleaved::<4>)),
            Unit { to: BLOCK, .. } => dispatch(copy.of(Nchwc)),
            Unit { to: PAIRS, .. } => dispatch_pairs(copy.of(Rounded)),
            Unit { from: PAIR, .. } => dispatch_pairs(copy.of(Columns)),
            _ => dispatch(copy.of(Alone)),
        }
        scratch
    }
}

impl<'a> Copy<'a> {
    /// Returns the copy of pixels of this kind.
    pub fn of<P: Pixel>(self, pixel: P) -> CopyOf<'a, P> {
        CopyOf(self, pixel)
    }
}

/// A copy of pixels of one kind.
pub(super) struct CopyOf<'a, P>(Copy<'a>, P);

/// A kind of pixel: the contiguous numbers of one position.
pub(super) trait Pixel: core::marker::Copy {
    /// The numbers in the image, and the elements in the band.
    const SIZES: [usize; 2];

    /// Copies the pixels of a row, which have the stride `apart` in the image.
    fn copy_row<S: Simd>(self, s: S, x: &[f32], apart: usize, to: &mut [f32]);

    /// Copies the rows and columns of a plane of one block.
    #[inline(always)]
    fn copy_plane<S: Simd>(
        self,
        s: S,
        (Plane { h, w, .. }, band): (&Plane, &Band),
        x: &[f32],
        [row, rows, col]: [usize; 3],
        to: &mut [f32],
    ) {
        let (cols, [from, unit]) = (band.phases[1], Self::SIZES);
        for (row_phase, to) in to.chunks_exact_mut(band.phases[0]).enumerate() {
            for col_phase in 0..w.phases() {
                let line = Line::of(w, col, col_phase, cols / unit);
                let rows = to.chunks_exact_mut(band.pitch).take(rows + h.extra());
                for (i, to) in rows.enumerate() {
                    let to = &mut to[col_phase * cols..][..cols];
                    let Some(row) = h.input(row + i, row_phase) else {
                        to.fill(0.0);
                        continue;
                    };
                    let x = &x[row * w.size * from..][..w.size * from];
                    line.copy_padded([from, unit], x, to, |x, to| {
                        self.copy_row(s, x, w.stride * from, to);
                    });
                }
            }
        }
    }
}

impl<P: Pixel> WithSimd for CopyOf<'_, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let CopyOf(Copy { band, plane, x, depth, at, to }, pixel) = self;
        let (Plane { d, .. }, each) = (plane, plane.input_plane());
        for (x, to) in x.chunks_exact((d.size * each).max(1)).zip(to.chunks_exact_mut(band.block)) {
            for (tap, to) in to.chunks_exact_mut(band.depth).take(d.kernel).enumerate() {
                match d.input(depth, tap * d.dilation) {
                    Some(place) => pixel.copy_plane(s, (plane, band), &x[place * each..], at, to),
                    None => to.fill(0.0),
                }
            }
        }
    }
}

/// One channel.
#[derive(Clone, Copy)]
pub(super) struct Alone;

impl Pixel for Alone {
    const SIZES: [usize; 2] = [1, 1];

    #[inline(always)]
    fn copy_row<S: Simd>(self, s: S, x: &[f32], apart: usize, to: &mut [f32]) {
        match apart {
            1 => to.copy_from_slice(&x[..to.len()]),
            2 => first_of_pairs(s, x, to),
            _ => to.iter_mut().zip(x.iter().step_by(apart)).for_each(|(to, &x)| *to = x),
        }
    }
}

/// Copies the first of each pair. The last pair may lack its second number.
#[inline(always)]
fn first_of_pairs<S: Simd>(s: S, x: &[f32], to: &mut [f32]) {
    let n = to.len();
    // Shorter than a vector, so the vectors below would overlap the start.
    if n < S::LANES {
        return to.iter_mut().zip(x.iter().step_by(2)).for_each(|(to, &x)| *to = x);
    }
    let (vectors, pairs) = (to.chunks_exact_mut(S::LANES), x.chunks_exact(2 * S::LANES));
    for (to, x) in vectors.zip(pairs) {
        let [firsts, _] = s.evens_and_odds(s.load(x), s.load(&x[S::LANES..]));
        s.store(firsts, to);
    }
    if !n.is_multiple_of(S::LANES) || x.len() < 2 * n {
        // The last vector overlaps the one before.
        let (x, to) = (&x[2 * (n - S::LANES)..], &mut to[n - S::LANES..]);
        let [firsts, _] = s.evens_and_odds(s.load(x), s.load_head(&x[S::LANES..]));
        s.store(firsts, to);
    }
}

/// A block of channels.
#[derive(Clone, Copy)]
pub(super) struct Nchwc;

impl Pixel for Nchwc {
    const SIZES: [usize; 2] = [BLOCK, BLOCK];

    #[inline(always)]
    fn copy_row<S: Simd>(self, s: S, x: &[f32], apart: usize, to: &mut [f32]) {
        for (to, x) in to.chunks_exact_mut(BLOCK).zip(x.chunks(apart)) {
            for v in (0..BLOCK).step_by(S::LANES) {
                s.store(s.load(&x[v..]), &mut to[v..]);
            }
        }
    }
}

/// A block of channels, which are interleaved from groups.
#[derive(Clone, Copy)]
pub(super) struct Interleaved<const GROUPS: usize>;

impl<const GROUPS: usize> Pixel for Interleaved<GROUPS> {
    const SIZES: [usize; 2] = [BLOCK, BLOCK];

    #[inline(always)]
    fn copy_row<S: Simd>(self, s: S, x: &[f32], apart: usize, to: &mut [f32]) {
        for (to, x) in to.chunks_exact_mut(BLOCK).zip(x.chunks(apart)) {
            interleave::<S, GROUPS>(s, x, to);
        }
    }
}

/// A block of channels, whose neighbors are rounded to `bfloat16` pairs.
#[derive(Clone, Copy)]
pub(super) struct Rounded;

impl Pixel for Rounded {
    const SIZES: [usize; 2] = [BLOCK, PAIRS];

    #[inline(always)]
    fn copy_row<S: Simd>(self, s: S, x: &[f32], apart: usize, to: &mut [f32]) {
        if S::LANES < BLOCK {
            for (to, x) in to.chunks_exact_mut(PAIRS).zip(x.chunks(apart)) {
                for v in (0..PAIRS).step_by(S::LANES) {
                    let x = &x[v * PAIR..];
                    s.store(s.pairs([s.load(x), s.load(&x[S::LANES..])]), &mut to[v..]);
                }
            }
            return;
        }
        // A vector holds two pixels.
        let (two, last) = to.as_chunks_mut::<{ PAIR * PAIRS }>();
        for (i, to) in two.iter_mut().enumerate() {
            let x = &x[PAIR * i * apart..];
            s.store(s.pairs([s.load(x), s.load(&x[apart..])]), to);
        }
        if !last.is_empty() {
            let x = s.load(&x[PAIR * two.len() * apart..]);
            let mut twice = [0.0; PAIR * PAIRS];
            s.store(s.pairs([x, x]), &mut twice);
            last.copy_from_slice(&twice[..PAIRS]);
        }
    }
}

/// Two columns of one channel, which are rounded to a `bfloat16` pair.
#[derive(Clone, Copy)]
pub(super) struct Columns;

impl Pixel for Columns {
    const SIZES: [usize; 2] = [PAIR, 1];

    #[inline(always)]
    fn copy_row<S: Simd>(self, s: S, x: &[f32], _: usize, to: &mut [f32]) {
        let mut x = x[..PAIR * to.len()].chunks_exact(PAIR * S::LANES);
        let mut to = to.chunks_exact_mut(S::LANES);
        for (to, x) in (&mut to).zip(&mut x) {
            s.store(s.pairs([s.load(x), s.load(&x[S::LANES..])]), to);
        }
        let last = x.remainder().as_chunks().0;
        to.into_remainder().iter_mut().zip(last).for_each(|(to, &x)| *to = simd::bf16_pair::of(x));
    }
}
