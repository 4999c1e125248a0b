//! Offsets of the elements of a sliding window, for any rank.

use core::ops::Range;

/// The geometry of a sliding window.
#[derive(Clone, Copy)]
pub(crate) struct Taps<'a> {
    /// The sizes of the image.
    pub size: &'a [usize],
    /// The sizes of the output.
    pub out: &'a [usize],
    /// The sizes of the window.
    pub kernel: &'a [usize],
    /// The strides of the window.
    pub strides: &'a [usize],
    /// The dilations of the window.
    pub dilations: &'a [usize],
    /// The padding before the image.
    pub pads: &'a [usize],
}

impl<'a> Taps<'a> {
    /// Returns the number of elements of the image.
    pub fn elements(&self) -> usize {
        self.size.iter().product()
    }

    /// Returns the number of outputs.
    pub fn places(&self) -> usize {
        self.out.iter().product()
    }

    /// Returns the number of taps.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Returns whether the window covers the image.
    pub fn is_whole(&self) -> bool {
        self.kernel == self.size
            && self.places() == 1
            && self.pads.iter().all(|&pad| pad == 0)
            && self.dilations.iter().all(|&dilation| dilation == 1)
    }

    /// Returns a window that covers an image with one axis.
    pub fn whole(size: &'a [usize; 1]) -> Taps<'a> {
        Taps { size, out: &[1], kernel: size, strides: &[1], dilations: &[1], pads: &[0] }
    }

    /// Returns the last axis: size, outputs, taps, stride, dilation and padding.
    pub fn last(&self) -> [usize; 6] {
        let Taps { size, out, kernel, strides, dilations, pads } = *self;
        [(size, 1), (out, 1), (kernel, 1), (strides, 1), (dilations, 1), (pads, 0)]
            .map(|(of, missing)| of.last().copied().unwrap_or(missing))
    }

    /// Returns the window without its last axis.
    pub fn without_last(&self) -> Taps<'a> {
        let but_last = |of: &'a [usize]| &of[..of.len().saturating_sub(1)];
        Taps {
            size: but_last(self.size),
            out: but_last(self.out),
            kernel: but_last(self.kernel),
            strides: but_last(self.strides),
            dilations: but_last(self.dilations),
            pads: but_last(self.pads),
        }
    }

    /// Returns the last axis of the window.
    pub fn only_last(&self) -> Taps<'a> {
        self.only(self.size.len().saturating_sub(1))
    }

    /// Returns an axis of the window, or none.
    pub fn only(&self, axis: usize) -> Taps<'a> {
        let one = |of: &'a [usize]| of.get(axis..=axis).unwrap_or(&[]);
        Taps {
            size: one(self.size),
            out: one(self.out),
            kernel: one(self.kernel),
            strides: one(self.strides),
            dilations: one(self.dilations),
            pads: one(self.pads),
        }
    }

    /// Returns the image element under a tap at an output; `None` outside of the image.
    pub fn input(&self, mut place: usize, mut tap: usize) -> Option<usize> {
        let (mut input, mut distance) = (0, 1);
        for axis in (0..self.size.len()).rev() {
            // Every list has a nonzero element per axis; checked access leaves no panic in the
            // code.
            let of = |sizes: &[usize]| sizes.get(axis).copied();
            let (out, kernel, size) = (of(self.out)?, of(self.kernel)?, of(self.size)?);
            // Divisions are slow, and the first axis needs none.
            let (at_place, at_tap) = if axis > 0 {
                (place.checked_rem(out)?, tap.checked_rem(kernel)?)
            } else {
                (place, tap)
            };
            let at = at_place * of(self.strides)? + at_tap * of(self.dilations)?;
            let at = at.checked_sub(of(self.pads)?).filter(|&at| at < size)?;
            input += at * distance;
            if axis > 0 {
                distance *= size;
                (place, tap) = (place / out, tap / kernel);
            }
        }
        Some(input)
    }

    /// Returns the image elements under the window at an output. Padding costs no time.
    pub fn inputs(self, place: usize) -> impl Iterator<Item = usize> {
        (0..self.count(place, None)).filter_map(move |nth| self.nth_input(place, nth))
    }

    /// Returns the image element under one of the taps that are inside of the image at an output.
    fn nth_input(&self, mut place: usize, mut nth: usize) -> Option<usize> {
        let (mut input, mut distance) = (0, 1);
        for axis in (0..self.size.len()).rev() {
            let of = |sizes: &[usize]| sizes.get(axis).copied();
            let (out, size) = (of(self.out)?, of(self.size)?);
            let at_place = place.checked_rem(out)?;
            let taps = self.inside(axis, at_place * of(self.strides)?)?;
            let tap = taps.start + nth.checked_rem(taps.len())?;
            let at = at_place * of(self.strides)? + tap * of(self.dilations)?;
            input += at.checked_sub(of(self.pads)?)? * distance;
            distance *= size;
            (place, nth) = (place / out, nth / taps.len());
        }
        Some(input)
    }

    /// Returns the taps along an axis that are inside of the image, for the window that starts at
    /// `first` in the padded image.
    #[inline(always)]
    fn inside(&self, axis: usize, first: usize) -> Option<Range<usize>> {
        let of = |sizes: &[usize]| sizes.get(axis).copied();
        let (kernel, dilation, pad) = (of(self.kernel)?, of(self.dilations)?, of(self.pads)?);
        let before = |limit: usize| limit.saturating_sub(first).div_ceil(dilation).min(kernel);
        Some(before(pad)..before(pad + of(self.size)?))
    }

    /// Returns the output at which a tap covers an image element, if there is one: the inverse of
    /// [`Taps::input`].
    pub fn place(&self, mut element: usize, mut tap: usize) -> Option<usize> {
        let (mut place, mut distance) = (0, 1);
        for axis in (0..self.size.len()).rev() {
            let (size, kernel, out) = (self.size[axis], self.kernel[axis], self.out[axis]);
            let at = element % size + self.pads[axis];
            let at = at.checked_sub(tap % kernel * self.dilations[axis])?;
            let stride = self.strides[axis];
            if !at.is_multiple_of(stride) || at / stride >= out {
                return None;
            }
            place += at / stride * distance;
            distance *= out;
            element /= size;
            tap /= kernel;
        }
        Some(place)
    }

    /// Returns the number of taps at an output inside of the image, and inside of its padding if
    /// `ends` gives the padding after the image.
    pub fn count(&self, mut place: usize, ends: Option<&[usize]>) -> usize {
        let mut count = 1;
        for axis in (0..self.size.len()).rev() {
            let first = place % self.out[axis] * self.strides[axis];
            count *= match ends {
                Some(ends) => {
                    let end = self.pads[axis] + self.size[axis] + ends[axis];
                    let taps = end.saturating_sub(first).div_ceil(self.dilations[axis]);
                    taps.min(self.kernel[axis])
                }
                None => self.inside(axis, first).map_or(0, |taps| taps.len()),
            };
            place /= self.out[axis];
        }
        count
    }

    /// Converts the index of an image element to an offset with other strides.
    pub fn along(&self, mut input: usize, strides: &[usize]) -> usize {
        let mut at = 0;
        for (&size, &stride) in self.size.iter().zip(strides).rev() {
            at += input % size * stride;
            input /= size;
        }
        at
    }
}
