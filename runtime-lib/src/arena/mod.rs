//! Memory that the compiler planned: slots of an arena, and weights.
//!
//! A generated module names every buffer by a [`Slot`], and [`borrow`]s from the arena the slots
//! that one kernel reads and writes.

mod access;
#[cfg(feature = "alloc")]
mod dynamic;
#[cfg(feature = "alloc")]
mod gaps;
#[cfg(all(test, feature = "std", target_arch = "x86_64", target_os = "linux", not(miri)))]
mod guarded;
mod include;
#[cfg(feature = "alloc")]
mod layout;
mod trailer;
mod weights;

pub use access::{Access, Read, ReadArray, Slots, Together, Write, borrow};
#[cfg(feature = "alloc")]
pub use dynamic::{DynamicArena, DynamicSlot, Layout, bounded};
#[cfg(feature = "link-weights")]
#[doc(hidden)]
pub use include::find_weights;
#[cfg(feature = "alloc")]
pub use layout::{Buffer, lay_out};
pub use trailer::{Checksum, Trailer};
pub use weights::{Weights, WeightsView};

use crate::{
    Complex, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, I2, I4, U2,
    U4, threads::Granularity,
};
use core::fmt;
use core::marker::PhantomData;

/// The unit of arenas and weights: bytes that are aligned for every element and vector.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Block([u8; Block::BYTES]);

impl Block {
    /// The size and the alignment of a block.
    pub const BYTES: usize = 64;
    /// A block of zeros.
    pub const ZERO: Block = Block([0; Block::BYTES]);

    /// Returns blocks as arrays of bytes.
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    fn arrays(blocks: &[Block]) -> &[[u8; Block::BYTES]] {
        // SAFETY: a `Block` is `repr(C)` with the array as its only field, and 64 bytes need no
        // padding at an alignment of 64.
        unsafe { core::slice::from_raw_parts(blocks.as_ptr().cast(), blocks.len()) }
    }
}

/// An element type that an arena can hold, whatever was written to the same bytes before.
///
/// # Safety
///
/// The type has no padding, its alignment is at most [`Weights::ALIGNMENT`], and after `mend` any
/// bytes are valid values of it.
pub unsafe trait Plain: Copy + 'static {
    /// Replaces bytes that are not valid values.
    fn mend(_bytes: &mut [u8]) {}

    /// Returns whether the bytes are valid values.
    fn is_valid(_bytes: &[u8]) -> bool {
        true
    }
}

macro_rules! plain {
    ($($T:ty)*) => {$(
        // SAFETY: every bit pattern is a value of the type, which has no padding.
        unsafe impl Plain for $T {}
    )*};
}

plain!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);
plain!(F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0 F6E2M3 F6E3M2 F4E2M1 I2 I4 U2 U4);
plain!(Complex<f32> Complex<f64>);
#[cfg(feature = "half")]
plain!(half::f16 half::bf16);

// SAFETY: after `mend`, every byte is 0 or 1, the two values of `bool`.
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

/// The location of a buffer in an arena or in the weights.
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
    /// Creates the slot of `len` elements from byte `offset` on.
    ///
    /// # Panics
    ///
    /// Panics if `offset` is not a multiple of the element's size, or the slot ends beyond the
    /// address space.
    pub const fn new(offset: usize, len: usize) -> Slot<T> {
        assert!(offset.is_multiple_of(size_of::<T>()), "a slot starts at an element");
        assert!(len <= (usize::MAX - offset) / size_of::<T>(), "a slot ends in memory");
        Slot { offset, len, element: PhantomData }
    }

    /// Returns the slot of `len` of the elements, from element `start` on.
    ///
    /// # Panics
    ///
    /// Panics if the elements are outside the slot.
    #[inline(always)]
    pub const fn part(self, start: usize, len: usize) -> Slot<T> {
        let inside = start <= self.len && len <= self.len - start;
        if !inside {
            outside();
        }
        Slot { offset: self.offset + start * size_of::<T>(), len, element: PhantomData }
    }

    /// Read access.
    #[inline(always)]
    pub const fn read(self) -> Read<T> {
        Read(self)
    }

    /// Write access.
    #[inline(always)]
    pub const fn write(self) -> Write<T> {
        Write(self)
    }

    /// Read access as an array of all elements.
    #[inline(always)]
    pub const fn array<const N: usize>(self) -> ReadArray<T, N> {
        ReadArray(self)
    }
}

#[cold]
const fn outside() -> ! {
    panic!("a slot is outside the memory")
}

/// An arena without a heap: a field of a model, or one that several models share:
///
/// ```
/// # use onnxc_runtime::arena::{Block, InlineArena};
/// # const fn larger(a: usize, b: usize) -> usize { if a > b { a } else { b } }
/// # struct Ears; impl Ears { const PEAK_ARENA_BYTES: usize = 640; }
/// # struct Eyes; impl Eyes { const PEAK_ARENA_BYTES: usize = 1000; }
/// const BYTES: usize = larger(Ears::PEAK_ARENA_BYTES, Eyes::PEAK_ARENA_BYTES);
/// static ARENA: InlineArena<{ BYTES.div_ceil(Block::BYTES) }> = InlineArena::new();
/// # assert!(size_of_val(&ARENA) >= 1024);
/// ```
#[derive(Clone)]
pub struct InlineArena<const BLOCKS: usize> {
    blocks: [Block; BLOCKS],
    granularity: Granularity,
}

impl<const BLOCKS: usize> InlineArena<BLOCKS> {
    /// Creates an arena of zeros.
    pub const fn new() -> InlineArena<BLOCKS> {
        InlineArena { blocks: [Block::ZERO; BLOCKS], granularity: Granularity::new() }
    }

    /// Returns the memory for a run.
    #[inline(always)]
    pub fn blocks(&mut self) -> &mut [Block] {
        self.granularity.start();
        &mut self.blocks
    }

    /// Returns the first `N` blocks for a run. It does not compile for an arena with fewer blocks.
    #[inline(always)]
    pub fn first<const N: usize>(&mut self) -> &mut [Block] {
        const { assert!(N <= BLOCKS, "the arena is smaller than the model's `PEAK_ARENA_BYTES`") };
        self.granularity.start();
        &mut self.blocks[..N]
    }
}

/// Shows the size of the arena.
impl<const BLOCKS: usize> fmt::Debug for InlineArena<BLOCKS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InlineArena({} bytes)", size_of_val(&self.blocks))
    }
}

impl<const BLOCKS: usize> Default for InlineArena<BLOCKS> {
    fn default() -> Self {
        InlineArena::new()
    }
}

/// An arena on the heap, allocated by the first run. The program ends if there is no memory for it,
/// as for a `Vec`.
#[cfg(feature = "alloc")]
#[derive(Clone, Default)]
pub struct HeapArena<const BLOCKS: usize> {
    blocks: alloc::vec::Vec<Block>,
    granularity: Granularity,
}

#[cfg(feature = "alloc")]
impl<const BLOCKS: usize> HeapArena<BLOCKS> {
    /// Creates an arena without allocating it.
    pub const fn new() -> HeapArena<BLOCKS> {
        HeapArena { blocks: alloc::vec::Vec::new(), granularity: Granularity::new() }
    }

    /// Returns the memory for a run.
    #[inline]
    pub fn blocks(&mut self) -> &mut [Block] {
        self.granularity.start();
        self.blocks.resize(BLOCKS, Block::ZERO);
        &mut self.blocks
    }
}

/// Shows the size of the memory that is allocated.
#[cfg(feature = "alloc")]
impl<const BLOCKS: usize> fmt::Debug for HeapArena<BLOCKS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapArena({} bytes)", size_of_val(&self.blocks[..]))
    }
}

/// Bytes that are aligned for every element and vector.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Aligned<T: ?Sized>(pub T);

/// Allocates `len` elements on the heap, all zero, false or empty.
#[cfg(feature = "alloc")]
pub fn heap<T: crate::Elem>(len: usize) -> alloc::vec::Vec<T> {
    alloc::vec![T::default(); len]
}

/// Allocates as many elements as the product of `sizes` on the heap, all zero, false or empty.
///
/// # Errors
///
/// Returns an error if there is not enough memory.
#[cfg(feature = "alloc")]
pub fn heap_of<T: crate::Elem>(sizes: &[usize]) -> crate::Result<alloc::vec::Vec<T>> {
    let product = |start: usize| sizes.iter().fold(start, |all, &size| all.saturating_mul(size));
    let len = if sizes.contains(&0) { 0 } else { product(1) };
    if alloc::vec::Vec::<T>::new().try_reserve_exact(len).is_err() {
        return Err(crate::Error::Memory { bytes: product(size_of::<T>()) });
    }
    Ok(heap(len))
}

/// Stops the compilation of a generated module that needs the heap if this crate has none.
#[cfg(feature = "alloc")]
#[doc(hidden)]
#[macro_export]
macro_rules! needs_alloc {
    () => {};
}

#[cfg(not(feature = "alloc"))]
#[doc(hidden)]
#[macro_export]
macro_rules! needs_alloc {
    () => {
        ::core::compile_error!(
            "this model uses the heap: enable the feature `alloc` of `onnxc-runtime`, or fix or \
             bound the free sizes (`--dim`) and put the arena into the struct, or let the caller \
             pass it (`--arena`)"
        );
    };
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
    fn slots_are_read_together() {
        let mut arena = InlineArena::<2>::new();
        borrow(arena.blocks(), X.write())[1] = 2.5;
        let groups = (Together((X.read(), Y.array::<64>())), Together((X.part(1, 1).read(),)));
        let ((x, y), (part,)) = borrow(arena.blocks(), groups);
        assert_eq!((x[1], y[0], part), (2.5, 0, &[2.5][..]));
    }

    #[test]
    fn any_bytes_become_flags() {
        let mut arena = InlineArena::<1>::new();
        borrow(arena.blocks(), Slot::<u8>::new(0, 4).write()).copy_from_slice(&[0, 1, 2, 255]);
        assert_eq!(borrow(arena.blocks(), FLAGS.read()), [false, true, true, true]);
    }

    #[test]
    fn a_written_slot_is_borrowed_exclusively() {
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
        assert!(refused(|arena| {
            borrow(arena, (Together((X.read(), Y.write())), FLAGS.read()));
        }));
        assert!(refused(|arena| {
            borrow(arena, (Together((Y.write(), Y.write())),));
        }));
        assert!(!refused(|arena| {
            borrow(arena, (X.read(), FLAGS.read()));
        }));
    }

    #[cfg(feature = "std")]
    #[test]
    fn memory_is_shown_by_its_size() {
        let arena = InlineArena::<2>::new();
        assert_eq!(std::format!("{arena:?}"), "InlineArena(128 bytes)");
        let mut arena = HeapArena::<3>::new();
        assert_eq!(std::format!("{arena:?}"), "HeapArena(0 bytes)");
        arena.blocks();
        assert_eq!(std::format!("{arena:?}"), "HeapArena(192 bytes)");
    }

    #[test]
    fn a_slot_ends_where_memory_does() {
        let refused =
            |offset, len| std::panic::catch_unwind(move || Slot::<f32>::new(offset, len)).is_err();
        assert!(refused(0, usize::MAX / 4 + 2));
        assert!(refused(usize::MAX - 3, 1));
        assert!(!refused(usize::MAX - 7, 1));
    }
}
