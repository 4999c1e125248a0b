//! What threads get of an output: rows of its planes, or whole planes.

use super::MaybeSync;
use core::marker::PhantomData;
use core::ops::Range;
use core::slice::from_raw_parts_mut;

/// The same rows of some planes of an output, all of which are as long. Between those of one plane and
/// the next there may be rows of others.
pub(crate) struct Share<'a, T> {
    first: *mut T,
    planes: usize,
    /// Elements of each plane.
    len: usize,
    /// From one plane to the next.
    apart: usize,
    y: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for slices of `T` that nobody else has.
unsafe impl<T: Send> Send for Share<'_, T> {}
// SAFETY: one that is shared tells no more than sizes.
unsafe impl<T: Send> Sync for Share<'_, T> {}

/// How an output is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// In rows of all planes, so that the next kernel finds at hand what its thread wrote; in planes
    /// too, where rows are fewer than threads.
    Rows,
    /// In rows of all planes alone.
    OnlyRows,
    /// In planes; in rows too, where planes are fewer.
    Planes,
}

/// What a thread gets, and what part of the whole it is.
pub(crate) struct Piece<'a, T> {
    pub planes: Range<usize>,
    pub rows: Range<usize>,
    pub y: Share<'a, T>,
}

impl<'a, T> Share<'a, T> {
    /// All planes of an output, so many elements each. What is less than one is left over.
    #[inline(always)]
    pub fn of(y: &'a mut [T], plane: usize) -> Share<'a, T> {
        let planes = y.len().checked_div(plane).unwrap_or(0);
        Share { first: y.as_mut_ptr(), planes, len: plane, apart: plane, y: PhantomData }
    }

    /// How many planes there are.
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// How many elements of each plane it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How far the planes start from one another.
    pub fn apart(&self) -> usize {
        self.apart
    }

    /// Where the first plane starts. What is behind its elements may be another's.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.first
    }

    /// What it has of a plane.
    #[inline(always)]
    pub fn plane(&mut self, index: usize) -> &mut [T] {
        assert!(index < self.planes);
        // SAFETY: such a plane is there, and nobody else has these elements of it.
        unsafe { from_raw_parts_mut(self.first.add(index * self.apart), self.len) }
    }

    /// Some elements of some planes.
    #[inline(always)]
    pub fn part(&mut self, planes: Range<usize>, elements: Range<usize>) -> Share<'_, T> {
        assert!(planes.start <= planes.end && planes.end <= self.planes);
        assert!(elements.start <= elements.end && elements.end <= self.len);
        // SAFETY: they are there, and nobody has them as long as this one is lent.
        unsafe { self.piece(planes, elements) }
    }

    /// Leaves the first planes out.
    pub fn skip(&mut self, planes: usize) {
        assert!(planes <= self.planes);
        self.first = self.first.wrapping_add(planes * self.apart);
        self.planes -= planes;
    }

    /// Some elements of some planes.
    ///
    /// # Safety
    /// They are there, and nobody else has any of them meanwhile.
    #[inline(always)]
    unsafe fn piece<'b>(&self, planes: Range<usize>, elements: Range<usize>) -> Share<'b, T> {
        let first = self.first.wrapping_add(planes.start * self.apart + elements.start);
        let (planes, len) = (planes.len(), elements.len());
        Share { first, planes, len, apart: self.apart, y: PhantomData }
    }

    /// Lets threads fill it at the same time, rows of so many elements (the last may be shorter) or
    /// whole planes, if that is worth `cost` elements.
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
            // SAFETY: no two parts have elements in common, and each is given once.
            let y = unsafe { self.piece(planes.clone(), elements) };
            fill(Piece { planes, rows, y });
        });
        super::done();
    }
}

/// [`share`](super::share), of several outputs of as many units each, none of them shorter.
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
            // SAFETY: there are so many units, no two parts have any in common, and each is given once.
            unsafe { all[y].piece(0..1, start * units[y]..end * units[y]) }
        });
        part(start, own.each_mut().map(|y| y.plane(0)));
    });
    super::done();
}

/// In how many parts planes and rows are cut: in at most so many together.
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
