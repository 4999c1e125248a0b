//! Memory that was planned before the program runs: slots of an arena, and weights.
//!
//! A generated module names every buffer by a [`Slot`], and [`borrow`]s from the arena just what
//! one kernel reads and writes. This file is where bytes become elements.

use crate::{
    Complex, Error, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, I2,
    I4, Result, U2, U4,
};
use core::marker::PhantomData;

/// The unit of arenas and weights: bytes at an address that suits every element and vector.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Block([u8; Block::BYTES]);

impl Block {
    /// The size and the alignment of a block.
    pub const BYTES: usize = 64;
    /// A block of zeros.
    pub const ZERO: Block = Block([0; Block::BYTES]);
}

/// An element that may have been written to an arena as another one.
///
/// # Safety
///
/// The type has no padding, and after `mend` has seen its bytes they are a valid value of it,
/// whatever they were before.
pub unsafe trait Plain: Copy + 'static {
    /// Changes bytes that no value has.
    fn mend(_bytes: &mut [u8]) {}

    /// Whether the bytes are values.
    fn is_valid(_bytes: &[u8]) -> bool {
        true
    }
}

macro_rules! plain {
    ($($T:ty)*) => {$(
        // SAFETY: every pattern of bits is a number of the type.
        unsafe impl Plain for $T {}
    )*};
}

plain!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);
plain!(F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0 F6E2M3 F6E3M2 F4E2M1 I2 I4 U2 U4);
plain!(Complex<f32> Complex<f64>);
#[cfg(feature = "half")]
plain!(half::f16 half::bf16);

// SAFETY: `mend` leaves no byte but 0 and 1.
unsafe impl Plain for bool {
    fn mend(bytes: &mut [u8]) {
        for byte in bytes {
            *byte = u8::from(*byte != 0);
        }
    }

    fn is_valid(bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| byte <= 1)
    }
}

/// Where a buffer lies in an arena or among the weights.
#[derive(Debug)]
pub struct Slot<T> {
    offset: usize,
    len: usize,
    element: PhantomData<T>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        *self
    }
}

impl<T> Copy for Slot<T> {}

impl<T: Plain> Slot<T> {
    /// `len` elements from byte `offset` on, which is a multiple of the block's size.
    pub const fn new(offset: usize, len: usize) -> Slot<T> {
        assert!(offset.is_multiple_of(Block::BYTES), "a slot starts with a block");
        Slot { offset, len, element: PhantomData }
    }

    /// `len` of the elements, from `start` on.
    #[inline(always)]
    pub const fn part(self, start: usize, len: usize) -> Slot<T> {
        let inside = start <= self.len && len <= self.len - start;
        if !inside {
            outside();
        }
        Slot { offset: self.offset + start * size_of::<T>(), len, element: PhantomData }
    }

    /// To be read by one kernel.
    #[inline(always)]
    pub const fn read(self) -> Read<T> {
        Read(self)
    }

    /// To be written by one kernel.
    #[inline(always)]
    pub const fn write(self) -> Write<T> {
        Write(self)
    }

    /// To be read as an array of all its elements.
    #[inline(always)]
    pub const fn array<const N: usize>(self) -> ReadArray<T, N> {
        ReadArray(self)
    }
}

/// A slot to be read.
#[derive(Clone, Copy, Debug)]
pub struct Read<T>(Slot<T>);

/// A slot to be written.
#[derive(Clone, Copy, Debug)]
pub struct Write<T>(Slot<T>);

/// A slot to be read as an array.
#[derive(Clone, Copy, Debug)]
pub struct ReadArray<T, const N: usize>(Slot<T>);

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
    fn range(self) -> (usize, usize) {
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

/// Panics unless the accesses can be granted together.
#[inline(always)]
fn check(bytes: usize, accesses: &[((usize, usize), bool)]) {
    for (i, &((start, end), exclusive)) in accesses.iter().enumerate() {
        if end > bytes || start > end {
            outside();
        }
        for &((other_start, other_end), other_exclusive) in &accesses[..i] {
            let apart = end <= other_start || other_end <= start;
            if !apart && (exclusive || other_exclusive) {
                overlap();
            }
        }
    }
}

#[cold]
const fn outside() -> ! {
    panic!("a slot lies outside the memory")
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
                check(size_of_val(arena), &[$(($a.range(), $a.exclusive())),+]);
                let base = arena.as_mut_ptr().cast::<u8>();
                // SAFETY: `check` saw that every range lies inside the arena, which is borrowed
                // for `'a`, and that a range that is written overlaps with no other. A slot
                // starts at a multiple of its element's size in an aligned arena. All bytes are
                // mended before the first slice is made.
                unsafe {
                    $($a.mend(base);)+
                    ($($a.slice(base),)+)
                }
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

/// An arena that lies where the model lies: in a `static`, or on the stack.
#[derive(Clone, Debug)]
pub struct InlineArena<const BLOCKS: usize>([Block; BLOCKS]);

impl<const BLOCKS: usize> InlineArena<BLOCKS> {
    /// An arena of zeros.
    pub const fn new() -> InlineArena<BLOCKS> {
        InlineArena([Block::ZERO; BLOCKS])
    }

    /// The memory.
    #[inline(always)]
    pub fn blocks(&mut self) -> &mut [Block] {
        &mut self.0
    }
}

impl<const BLOCKS: usize> Default for InlineArena<BLOCKS> {
    fn default() -> Self {
        InlineArena::new()
    }
}

/// An arena on the heap, taken when the model first runs.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, Default)]
pub struct HeapArena<const BLOCKS: usize>(alloc::vec::Vec<Block>);

#[cfg(feature = "alloc")]
impl<const BLOCKS: usize> HeapArena<BLOCKS> {
    /// An arena that takes no memory yet.
    pub const fn new() -> HeapArena<BLOCKS> {
        HeapArena(alloc::vec::Vec::new())
    }

    /// The memory.
    #[inline]
    pub fn blocks(&mut self) -> &mut [Block] {
        self.0.resize(BLOCKS, Block::ZERO);
        &mut self.0
    }
}

/// Bytes at an address that suits every element and vector.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Aligned<T: ?Sized>(pub T);

/// The weights of a model.
#[derive(Clone, Copy, Debug)]
pub struct Weights(&'static [u8]);

impl Weights {
    /// The alignment that weights given by the caller must have.
    pub const ALIGNMENT: usize = 16;

    /// Weights that the program carries.
    pub const fn new(bytes: &'static Aligned<[u8]>) -> Weights {
        Weights(&bytes.0)
    }

    /// Weights that the caller has, which must be `expected` bytes.
    pub fn from_bytes(bytes: &'static [u8], expected: usize) -> Result<Weights> {
        if bytes.len() != expected {
            return Err(Error::Weights { expected, found: bytes.len() });
        }
        if !bytes.as_ptr().addr().is_multiple_of(Weights::ALIGNMENT) {
            return Err(Error::Alignment(Weights::ALIGNMENT));
        }
        Ok(Weights(bytes))
    }

    /// The elements of one weight.
    ///
    /// # Panics
    ///
    /// Where the slot lies outside the weights, or the bytes are not elements of the type. A slot
    /// of a generated module does not, nor do the model's own weights.
    #[inline(always)]
    pub fn get<T: Plain>(&self, slot: Slot<T>) -> &'static [T] {
        let (start, end) = slot.range();
        if end > self.0.len() || start > end {
            outside();
        }
        let bytes = &self.0[start..end];
        if !T::is_valid(bytes) {
            invalid();
        }
        // SAFETY: the bytes are those of `len` elements, and valid. They start at a multiple of
        // the element's size from an address aligned for every element.
        unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), slot.len) }
    }
}

#[cold]
fn invalid() -> ! {
    panic!("the weights are not those of the model")
}

/// Elements on the heap, all zero, false or empty: a value whose size is known only when the
/// model runs.
#[cfg(feature = "alloc")]
pub fn heap<T: crate::Elem>(len: usize) -> alloc::vec::Vec<T> {
    alloc::vec![T::default(); len]
}

/// Likewise, as many as the product of `sizes`.
///
/// # Errors
///
/// Where memory has no room for them.
#[cfg(feature = "alloc")]
pub fn heap_of<T: crate::Elem>(sizes: &[usize]) -> crate::Result<alloc::vec::Vec<T>> {
    let len = sizes.iter().try_fold(1usize, |len, &size| len.checked_mul(size));
    let fits = |&len: &usize| alloc::vec::Vec::<T>::new().try_reserve_exact(len).is_ok();
    len.filter(fits).map(heap).ok_or(crate::Error::Value("a size is larger than memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: Slot<f32> = Slot::new(0, 16);
    const Y: Slot<u8> = Slot::new(64, 64);
    const FLAGS: Slot<bool> = Slot::new(0, 4);

    #[test]
    fn slots_of_several_types_share_an_arena() {
        let mut arena = InlineArena::<2>::new();
        let (x, y) = borrow(arena.blocks(), (X.write(), Y.write()));
        x[3] = 1.5;
        y.fill(7);
        let (part, whole) = borrow(arena.blocks(), (X.part(3, 1).read(), Y.array::<64>()));
        assert_eq!((part, whole), (&[1.5f32][..], &[7; 64]));
    }

    #[test]
    fn any_bytes_become_flags() {
        let mut arena = InlineArena::<1>::new();
        borrow(arena.blocks(), Slot::<u8>::new(0, 4).write()).copy_from_slice(&[0, 1, 2, 255]);
        assert_eq!(borrow(arena.blocks(), FLAGS.read()), [false, true, true, true]);
    }

    #[test]
    fn what_is_written_is_borrowed_alone() {
        let refused = |slots: fn(&mut [Block])| {
            let mut arena = InlineArena::<2>::new();
            std::panic::catch_unwind(move || slots(arena.blocks())).is_err()
        };
        assert!(refused(|arena| {
            borrow(arena, (X.read(), X.write()));
        }));
        assert!(refused(|arena| {
            borrow(arena, (X.write(), FLAGS.read()));
        }));
        assert!(refused(|arena| {
            borrow(arena, Slot::<u8>::new(128, 1).read());
        }));
        assert!(!refused(|arena| {
            borrow(arena, (X.read(), FLAGS.read()));
        }));
    }

    #[test]
    fn weights_are_held_against_the_model() {
        static BYTES: &Aligned<[u8]> = &Aligned([0, 0, 128, 63, 0, 0, 0, 64]);
        let slot = Slot::<f32>::new(0, 2);
        assert_eq!(Weights::new(BYTES).get(slot), [1.0, 2.0]);
        assert!(Weights::from_bytes(&BYTES.0, 8).is_ok());
        assert!(matches!(Weights::from_bytes(&BYTES.0, 9), Err(Error::Weights { .. })));
        assert!(matches!(Weights::from_bytes(&BYTES.0[1..], 7), Err(Error::Alignment(_))));
    }
}
