//! Borrows slots of an arena: one slot, or several that do not conflict.

use super::{Block, Plain, Slot, outside};

/// Read access to a slot.
#[derive(Clone, Copy, Debug)]
pub struct Read<T>(pub(super) Slot<T>);

/// Write access to a slot.
#[derive(Clone, Copy, Debug)]
pub struct Write<T>(pub(super) Slot<T>);

/// Read access to a slot as an array.
#[derive(Clone, Copy, Debug)]
pub struct ReadArray<T, const N: usize>(pub(super) Slot<T>);

/// Read access to several slots as one, for more outputs than the longest tuple of slots.
#[derive(Clone, Copy, Debug)]
pub struct Together<T>(pub T);

/// Access to a slot.
///
/// # Safety
///
/// `slice` accesses only the bytes of `range`, and gives write access only if `exclusive` is true.
pub unsafe trait Access<'a>: Copy {
    /// The type that the slot is borrowed as.
    type Slice;

    /// The offsets of the first byte and of the end.
    fn range(self) -> (usize, usize);

    /// Returns whether the access writes.
    fn exclusive(self) -> bool;

    /// Makes the bytes of the slot valid elements.
    ///
    /// # Safety
    ///
    /// `base` is the start of a borrow that includes the bytes of `range`, and no slice of them
    /// exists.
    unsafe fn mend(self, base: *mut u8);

    /// Returns the elements of the slot.
    ///
    /// # Safety
    ///
    /// `base` is the start of a borrow for `'a` that includes the bytes of `range`. They start at a
    /// multiple of the element's size, and `mend` has made them valid. No other access to them
    /// exists if this one is exclusive, and no exclusive one otherwise.
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
    /// See [`Access::mend`].
    #[inline(always)]
    unsafe fn mend(self, base: *mut u8) {
        let (start, end) = self.range();
        // SAFETY: the caller borrows the bytes of the range, and no slice of them exists.
        T::mend(unsafe { core::slice::from_raw_parts_mut(base.add(start), end - start) });
    }

    /// Returns a pointer to the first element.
    ///
    /// # Safety
    ///
    /// See [`Access::slice`].
    #[inline(always)]
    unsafe fn first(self, base: *mut u8) -> *mut T {
        // SAFETY: the caller borrows the bytes of the range.
        unsafe { base.add(self.offset).cast() }
    }
}

// SAFETY: `slice` returns a shared slice of exactly the bytes of `range`.
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
        // SAFETY: the caller upholds the same contract.
        unsafe { self.0.mend(base) }
    }

    #[inline(always)]
    unsafe fn slice(self, base: *mut u8) -> &'a [T] {
        // SAFETY: the caller borrows the bytes, which are aligned and mended.
        unsafe { core::slice::from_raw_parts(self.0.first(base), self.0.len) }
    }
}

// SAFETY: `slice` returns an exclusive slice of exactly the bytes of `range`; `exclusive` is true.
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
        // SAFETY: the caller upholds the same contract.
        unsafe { self.0.mend(base) }
    }

    #[inline(always)]
    unsafe fn slice(self, base: *mut u8) -> &'a mut [T] {
        // SAFETY: the caller borrows the bytes exclusively; they are aligned and mended.
        unsafe { core::slice::from_raw_parts_mut(self.0.first(base), self.0.len) }
    }
}

// SAFETY: `slice` returns a shared reference to exactly the bytes of `range`.
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
        // SAFETY: the caller upholds the same contract.
        unsafe { self.0.mend(base) }
    }

    #[inline(always)]
    unsafe fn slice(self, base: *mut u8) -> &'a [T; N] {
        // SAFETY: the range is that of `N` elements, which the caller borrows.
        unsafe { &*self.0.first(base).cast() }
    }
}

/// Slots that can be borrowed at once: one slot, or a tuple of slots.
pub trait Slots<'a> {
    /// The type that the slots are borrowed as.
    type Slices;

    /// Borrows the slots; callers use [`borrow`].
    fn borrow_from(self, arena: &'a mut [Block]) -> Self::Slices;
}

/// Borrows slots of an arena as slices. A slot that is written overlaps with no other.
///
/// # Panics
///
/// Panics if a slot is outside the arena, or a slot that is written overlaps with another. The
/// slots of a generated module are constants, so the optimizer removes the checks.
#[inline(always)]
pub fn borrow<'a, S: Slots<'a>>(arena: &'a mut [Block], slots: S) -> S::Slices {
    slots.borrow_from(arena)
}

/// Panics if an access is outside the arena, or to slots that cannot be borrowed together.
#[inline(always)]
fn check_alone<'a>(bytes: usize, access: impl Access<'a>) {
    let ((start, end), _) = (access.range(), access.exclusive());
    if end > bytes || start > end {
        outside();
    }
}

/// Panics if two accesses overlap and one of them writes.
#[inline(always)]
fn check_apart<'a>(a: impl Access<'a>, b: impl Access<'a>) {
    let ((start, end), (other_start, other_end)) = (a.range(), b.range());
    let apart = end <= other_start || other_end <= start;
    if !apart && (a.exclusive() || b.exclusive()) {
        overlap();
    }
}

/// Checks each access, and each pair. A loop would not be optimized out at `opt-level = "s"`.
macro_rules! check {
    ($bytes:ident) => {};
    ($bytes:ident $a:ident $($other:ident)*) => {
        check_alone($bytes, $a);
        $(check_apart($a, $other);)*
        check!($bytes $($other)*);
    };
}

/// Returns the smallest range that includes all of `ranges`.
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
                // SAFETY: `check!` panics unless every range is inside the arena, which is borrowed
                // for `'a`, and a range that is written overlaps with no other. A slot starts at a
                // multiple of its element's size, and the arena is aligned. All bytes are mended
                // before the first slice exists.
                unsafe {
                    $($a.mend(base);)+
                    ($($a.slice(base),)+)
                }
            }
        }

        // SAFETY: `slice` accesses the bytes of each slot, which `range` includes. `exclusive`
        // panics if one of them is written, so they may overlap.
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
                // SAFETY: the caller upholds the contract for the whole range, which includes each
                // slot.
                unsafe { $($a.mend(base);)+ }
            }

            #[inline(always)]
            unsafe fn slice(self, base: *mut u8) -> Self::Slice {
                let ($($a,)+) = self.0;
                // SAFETY: the caller upholds the contract for the whole range, which includes each
                // slot.
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
