//! Borrowing slots of an arena: one, or several that do not get in each other's way.

use super::{Block, Plain, Slot, outside};

/// A slot to be read.
#[derive(Clone, Copy, Debug)]
pub struct Read<T>(pub(super) Slot<T>);

/// A slot to be written.
#[derive(Clone, Copy, Debug)]
pub struct Write<T>(pub(super) Slot<T>);

/// A slot to be read as an array.
#[derive(Clone, Copy, Debug)]
pub struct ReadArray<T, const N: usize>(pub(super) Slot<T>);

/// Several slots to be read, as one: there are more outputs than a tuple of slots has places.
#[derive(Clone, Copy, Debug)]
pub struct Together<T>(pub T);

/// One slot in the way that a kernel wants it.
///
/// # Safety
///
/// `slice` touches no bytes but those of `range`, and writes only where `exclusive` says so.
pub unsafe trait Access<'a>: Copy {
    /// What the slot is borrowed as.
    type Slice;

    /// The first byte, and the one behind the last.
    fn range(self) -> (usize, usize);

    /// Whether it is written.
    fn exclusive(self) -> bool;

    /// Makes the bytes of the slot valid elements.
    ///
    /// # Safety
    ///
    /// `base` is the start of a borrow that holds the bytes of `range`, and no slice of them
    /// exists.
    unsafe fn mend(self, base: *mut u8);

    /// The elements of the slot.
    ///
    /// # Safety
    ///
    /// `base` is the start of a borrow for `'a` that holds the bytes of `range`, which begin at a
    /// multiple of the element's size and are mended, and no other access to them that
    /// `exclusive` forbids exists.
    unsafe fn slice(self, base: *mut u8) -> Self::Slice;
}

impl<T: Plain> Slot<T> {
    #[inline(always)]
    pub(super) fn range(self) -> (usize, usize) {
        (self.offset, self.offset + self.len * size_of::<T>())
    }

    /// Makes the bytes of the slot valid elements.
    ///
    /// # Safety
    ///
    /// As [`Access::mend`].
    #[inline(always)]
    unsafe fn mend(self, base: *mut u8) {
        let (start, end) = self.range();
        // SAFETY: the caller holds the bytes of the range, and no slice of them exists.
        T::mend(unsafe { core::slice::from_raw_parts_mut(base.add(start), end - start) });
    }

    /// The first element.
    ///
    /// # Safety
    ///
    /// As [`Access::slice`].
    #[inline(always)]
    unsafe fn first(self, base: *mut u8) -> *mut T {
        // SAFETY: the caller holds the bytes of the range.
        unsafe { base.add(self.offset).cast() }
    }
}

// SAFETY: `slice` makes a shared slice of the slot's own bytes.
unsafe impl<'a, T: Plain> Access<'a> for Read<T> {
    type Slice = &'a [T];

    #[inline(always)]
    fn range(self) -> (usize, usize) {
        self.0.range()
    }

    #[inline(always)]
    fn exclusive(self) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn mend(self, base: *mut u8) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.mend(base) }
    }

    #[inline(always)]
    unsafe fn slice(self, base: *mut u8) -> &'a [T] {
        // SAFETY: the caller holds the bytes, which are aligned and mended.
        unsafe { core::slice::from_raw_parts(self.0.first(base), self.0.len) }
    }
}

// SAFETY: `slice` makes an exclusive slice of the slot's own bytes, as `exclusive` says.
unsafe impl<'a, T: Plain> Access<'a> for Write<T> {
    type Slice = &'a mut [T];

    #[inline(always)]
    fn range(self) -> (usize, usize) {
        self.0.range()
    }

    #[inline(always)]
    fn exclusive(self) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn mend(self, base: *mut u8) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.mend(base) }
    }

    #[inline(always)]
    unsafe fn slice(self, base: *mut u8) -> &'a mut [T] {
        // SAFETY: the caller holds the bytes alone; they are aligned and mended.
        unsafe { core::slice::from_raw_parts_mut(self.0.first(base), self.0.len) }
    }
}

// SAFETY: as for `Read`.
unsafe impl<'a, T: Plain, const N: usize> Access<'a> for ReadArray<T, N> {
    type Slice = &'a [T; N];

    #[inline(always)]
    fn range(self) -> (usize, usize) {
        self.0.part(0, N).range()
    }

    #[inline(always)]
    fn exclusive(self) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn mend(self, base: *mut u8) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.0.mend(base) }
    }

    #[inline(always)]
    unsafe fn slice(self, base: *mut u8) -> &'a [T; N] {
        // SAFETY: the range is that of `N` elements, which the caller holds.
        unsafe { &*self.0.first(base).cast() }
    }
}

/// Slots that can be borrowed at once: one, or a tuple of them.
pub trait Slots<'a> {
    /// What they are borrowed as.
    type Slices;

    /// Borrows them; [`borrow`] is the way to say it.
    fn borrow_from(self, arena: &'a mut [Block]) -> Self::Slices;
}

/// Borrows slots of an arena: slices to read, and slices to write that overlap with no other.
///
/// # Panics
///
/// Where a slot lies outside the arena, or one that is written overlaps with another. Slots of a
/// generated module do neither, which the optimizer sees, so that no check is left.
#[inline(always)]
pub fn borrow<'a, S: Slots<'a>>(arena: &'a mut [Block], slots: S) -> S::Slices {
    slots.borrow_from(arena)
}

/// Panics where an access is to bytes outside the arena, or to slots that cannot be borrowed together.
#[inline(always)]
fn check_alone<'a>(bytes: usize, access: impl Access<'a>) {
    let ((start, end), _) = (access.range(), access.exclusive());
    if end > bytes || start > end {
        outside();
    }
}

/// Panics where two accesses get in each other's way.
#[inline(always)]
fn check_apart<'a>(a: impl Access<'a>, b: impl Access<'a>) {
    let ((start, end), (other_start, other_end)) = (a.range(), b.range());
    let apart = end <= other_start || other_end <= start;
    if !apart && (a.exclusive() || b.exclusive()) {
        overlap();
    }
}

/// Checks each access, and each pair of them. It is no loop, which would be left in a small program.
macro_rules! check {
    ($bytes:ident) => {};
    ($bytes:ident $a:ident $($other:ident)*) => {
        check_alone($bytes, $a);
        $(check_apart($a, $other);)*
        check!($bytes $($other)*);
    };
}

/// The smallest range that holds all of `ranges`.
#[inline(always)]
fn hull(ranges: &[(usize, usize)]) -> (usize, usize) {
    let start = ranges.iter().map(|range| range.0).min().unwrap_or(0);
    let end = ranges.iter().map(|range| range.1).max().unwrap_or(0);
    (start, end)
}

#[cold]
fn overlap() -> ! {
    panic!("a slot that is written overlaps with another")
}

macro_rules! tuples {
    ($(($($A:ident $a:ident),+))*) => {$(
        impl<'a, $($A: Access<'a>),+> Slots<'a> for ($($A,)+) {
            type Slices = ($($A::Slice,)+);

            #[inline(always)]
            fn borrow_from(self, arena: &'a mut [Block]) -> Self::Slices {
                let ($($a,)+) = self;
                let bytes = size_of_val(arena);
                check!(bytes $($a)+);
                let base = arena.as_mut_ptr().cast::<u8>();
                // SAFETY: `check!` saw that every range lies inside the arena, which is borrowed
                // for `'a`, and that a range that is written overlaps with no other. A slot
                // starts at a multiple of its element's size in an aligned arena. All bytes are
                // mended before the first slice is made.
                unsafe {
                    $($a.mend(base);)+
                    ($($a.slice(base),)+)
                }
            }
        }

        // SAFETY: each slot touches its own bytes alone, all of which lie in the range. None is
        // written, so it does no harm where they overlap.
        unsafe impl<'a, $($A: Access<'a>),+> Access<'a> for Together<($($A,)+)> {
            type Slice = ($($A::Slice,)+);

            #[inline(always)]
            fn range(self) -> (usize, usize) {
                let ($($a,)+) = self.0;
                hull(&[$($a.range()),+])
            }

            #[inline(always)]
            fn exclusive(self) -> bool {
                let ($($a,)+) = self.0;
                if [$($a.exclusive()),+].contains(&true) {
                    overlap();
                }
                false
            }

            #[inline(always)]
            unsafe fn mend(self, base: *mut u8) {
                let ($($a,)+) = self.0;
                // SAFETY: the caller's promise is for all of the range.
                unsafe { $($a.mend(base);)+ }
            }

            #[inline(always)]
            unsafe fn slice(self, base: *mut u8) -> Self::Slice {
                let ($($a,)+) = self.0;
                // SAFETY: likewise.
                unsafe { ($($a.slice(base),)+) }
            }
        }
    )*};
}

tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
    (A a, B b, C c, D d, E e, F f, G g)
    (A a, B b, C c, D d, E e, F f, G g, H h)
    (A a, B b, C c, D d, E e, F f, G g, H h, I i)
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j)
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k)
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l)
}

macro_rules! single {
    ($($Access:ident<$T:ident $(, $N:ident)?>)*) => {$(
        impl<'a, $T: Plain $(, const $N: usize)?> Slots<'a> for $Access<$T $(, $N)?> {
            type Slices = <Self as Access<'a>>::Slice;

            #[inline(always)]
            fn borrow_from(self, arena: &'a mut [Block]) -> Self::Slices {
                let (slice,) = borrow(arena, (self,));
                slice
            }
        }
    )*};
}

single!(Read<T> Write<T> ReadArray<T, N>);
