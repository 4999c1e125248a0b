//! Splits an output among threads: rows of its planes, or whole planes.

use super::MaybeSync;
use core::marker::PhantomData;
use core::ops::Range;
use core::slice::from_raw_parts_mut;

/// A range of elements of each of several planes of an output. Between the ranges of two planes may
/// be elements of other shares.
pub(crate) struct Share<'a, T> {
    first: *mut T,
    planes: usize,
    /// The number of elements of each plane.
    len: usize,
    /// The distance of two planes, in elements.
    apart: usize,
    y: PhantomData<&'a mut [T]>,
}

// SAFETY: a share has exclusive access to its elements, like `&mut [T]`, which is `Send` if `T` is.
unsafe impl<T: Send> Send for Share<'_, T> {}
// SAFETY: a shared reference gives access only to sizes.
unsafe impl<T: Send> Sync for Share<'_, T> {}

/// The axis along which an output is split.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// Rows of all planes, so that the next kernel finds in its cache the rows that its thread
    /// wrote; also planes, if there are fewer rows than parts.
    Rows,
    /// Only rows of all planes.
    OnlyRows,
    /// Planes; also rows, if there are fewer planes than parts.
    Planes,
}

/// The part of one thread: its planes, its rows, and their elements.
pub(crate) struct Piece<'a, T> {
    pub planes: Range<usize>,
    pub rows: Range<usize>,
    pub y: Share<'a, T>,
}

impl<'a, T> Share<'a, T> {
    /// Wraps all planes of an output, of `plane` elements each. The rest of an incomplete plane is
    /// left out.
    #[inline(always)]
    pub fn of(y: &'a mut [T], plane: usize) -> Share<'a, T> {
        let planes = y.len().checked_div(plane).unwrap_or(0);
        Share { first: y.as_mut_ptr(), planes, len: plane, apart: plane, y: PhantomData }
    }

    /// The number of planes.
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// The number of elements of each plane.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The distance of two planes, in elements.
    pub fn apart(&self) -> usize {
        self.apart
    }

    /// Returns a pointer to the first plane. Elements behind `len` may belong to another share.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.first
    }

    /// Returns the elements of one plane.
    #[inline(always)]
    pub fn plane(&mut self, index: usize) -> &mut [T] {
        assert!(index < self.planes);
        // SAFETY: `index` is the number of a plane of this share, which is the only one of these
        // elements; the result borrows the share exclusively.
        unsafe { from_raw_parts_mut(self.first.add(index * self.apart), self.len) }
    }

    /// Returns a range of elements of some planes.
    #[inline(always)]
    pub fn part(&mut self, planes: Range<usize>, elements: Range<usize>) -> Share<'_, T> {
        assert!(planes.start <= planes.end && planes.end <= self.planes);
        assert!(elements.start <= elements.end && elements.end <= self.len);
        // SAFETY: the ranges are inside the share, as asserted, and the result borrows it
        // exclusively.
        unsafe { self.piece(planes, elements) }
    }

    /// Removes the first planes.
    pub fn skip(&mut self, planes: usize) {
        assert!(planes <= self.planes);
        self.first = self.first.wrapping_add(planes * self.apart);
        self.planes -= planes;
    }

    /// Returns a range of elements of some planes.
    ///
    /// # Safety
    ///
    /// The elements are inside this share, and nothing else accesses them for `'b`.
    #[inline(always)]
    unsafe fn piece<'b>(&self, planes: Range<usize>, elements: Range<usize>) -> Share<'b, T> {
        let first = self.first.wrapping_add(planes.start * self.apart + elements.start);
        let (planes, len) = (planes.len(), elements.len());
        Share { first, planes, len, apart: self.apart, y: PhantomData }
    }

    /// Fills the share: without threads there are no parts, and no code for them is compiled.
    #[cfg(not(feature = "threads"))]
    #[inline(always)]
    pub fn hand_out(self, row: usize, _: By, _: usize, fill: impl Fn(Piece<'_, T>)) {
        let rows = self.len.div_ceil(row.max(1));
        fill(Piece { planes: 0..self.planes, rows: 0..rows, y: self });
    }

    /// Lets threads fill the share concurrently: rows of `row` elements (the last may be shorter)
    /// or whole planes, if `cost`, the worth of all work in elements, is high enough.
    #[cfg(feature = "threads")]
    #[inline(always)]
    pub fn hand_out(self, row: usize, by: By, cost: usize, fill: impl Fn(Piece<'_, T>) + MaybeSync)
    where
        T: Send,
    {
        let rows = self.len.div_ceil(row.max(1));
        let parts = super::parts(self.planes * rows, cost);
        if parts <= 1 {
            fill(Piece { planes: 0..self.planes, rows: 0..rows, y: self });
            return super::done();
        }
        let [across, down] = grid(parts, by, self.planes, rows);
        let some = |i: usize, of: usize, all: usize| i * all / of..(i + 1) * all / of;
        super::run(across * down, &|i| {
            let (planes, rows) =
                (some(i % across, across, self.planes), some(i / across, down, rows));
            let elements = rows.start * row..self.len.min(rows.end * row);
            // SAFETY: the ranges of two parts do not overlap, `run` runs each part once, and `self`
            // is not used until `run` returns.
            let y = unsafe { self.piece(planes.clone(), elements) };
            fill(Piece { planes, rows, y });
        });
        super::done();
    }
}

/// Splits several outputs as [`share`](super::share) splits one. All have the same number of units.
#[inline(always)]
pub(crate) fn share_all<T: Send, const N: usize>(
    ys: [&mut [T]; N],
    units: [usize; N],
    cost: usize,
    part: impl Fn(usize, [&mut [T]; N]) + MaybeSync,
) {
    let count = ys[0].len().checked_div(units[0]).unwrap_or(0);
    let parts = super::parts(count, cost);
    if parts <= 1 {
        part(0, ys);
        return super::done();
    }
    let whole = |(y, unit): (&&mut [T], usize)| unit.checked_mul(count) == Some(y.len());
    assert!(ys.iter().zip(units).all(whole), "outputs of different numbers of units");
    let all = ys.map(|y| Share::of(y, y.len()));
    super::run(parts, &|i| {
        let (start, end) = (i * count / parts, (i + 1) * count / parts);
        let mut own: [_; N] = core::array::from_fn(|y| {
            // SAFETY: every output has `count` units, as asserted; the ranges of two parts do not
            // overlap, and `run` runs each part once.
            unsafe { all[y].piece(0..1, start * units[y]..end * units[y]) }
        });
        part(start, own.each_mut().map(|y| y.plane(0)));
    });
    super::done();
}

/// Returns the numbers of parts along planes and rows: at most `parts` together.
#[cfg(feature = "threads")]
fn grid(parts: usize, by: By, planes: usize, rows: usize) -> [usize; 2] {
    match by {
        By::Rows => {
            let down = parts.min(rows);
            [(parts / down).min(planes), down]
        }
        By::OnlyRows => [1, parts.min(rows)],
        By::Planes => {
            let across = parts.min(planes);
            [across, (parts / across).min(rows)]
        }
    }
}
