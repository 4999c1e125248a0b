//! An arena whose layout depends on sizes that are known when a run starts.

use super::{
    Block, Plain, Slot,
    layout::{Buffer, lay_out},
};
use crate::{Error, Result, threads::Granularity};
use alloc::vec::Vec;
use core::{any::TypeId, fmt, marker::PhantomData};

/// A buffer of a [`DynamicArena`]: its number, and the first and the last step that use it.
#[derive(Debug)]
pub struct DynamicSlot<T> {
    number: usize,
    first: u32,
    last: u32,
    element: PhantomData<T>,
}

impl<T> Clone for DynamicSlot<T> {
    fn clone(&self) -> DynamicSlot<T> {
        *self
    }
}

impl<T> Copy for DynamicSlot<T> {}

impl<T: Plain> DynamicSlot<T> {
    /// Creates buffer `number`, which the steps from `first` to `last` use.
    ///
    /// # Panics
    ///
    /// Panics if `last` is before `first`.
    pub const fn new(number: usize, first: u32, last: u32) -> DynamicSlot<T> {
        assert!(first <= last, "a live range ends at or after its start");
        DynamicSlot { number, first, last, element: PhantomData }
    }

    /// Returns the buffer with as many elements as the product of `sizes`.
    pub fn sized(self, sizes: &[usize]) -> Buffer {
        let bytes = sizes.iter().fold(size_of::<T>(), |bytes, &size| bytes.saturating_mul(size));
        // A size of zero after an overflow.
        let bytes = if sizes.contains(&0) { 0 } else { bytes };
        Buffer { bytes, first: self.first, last: self.last }
    }
}

/// The most elements of a tensor for which the scratch memory of kernels is computed.
const MOST_ELEMENTS: u64 = 1 << 54;

/// Returns the `scratch` memory of a kernel for these free sizes, or `usize::MAX` if no memory can
/// hold a tensor of them: the arithmetic of the kernels would overflow.
pub fn bounded(sizes: &[usize], scratch: impl FnOnce() -> usize) -> usize {
    let elements = sizes.iter().fold(1, |all: u64, &size| all.saturating_mul(size.max(1) as u64));
    if elements > MOST_ELEMENTS { usize::MAX } else { scratch() }
}

/// The location of each buffer of a [`DynamicArena`] in a run.
#[derive(Clone, Default)]
pub struct Layout {
    /// The function that lists the buffers, if there is a layout.
    buffers: Option<TypeId>,
    /// The sizes that the layout is for.
    sizes: Vec<usize>,
    /// The offset and the size of each buffer, in bytes.
    places: Vec<(usize, usize)>,
}

impl Layout {
    /// Returns the slot of a buffer.
    ///
    /// # Panics
    ///
    /// Panics if the layout does not have the buffer.
    #[inline]
    pub fn slot<T: Plain>(&self, buffer: DynamicSlot<T>) -> Slot<T> {
        let (offset, bytes) = self.places[buffer.number];
        Slot { offset, len: bytes / size_of::<T>(), element: PhantomData }
    }
}

/// An arena on the heap whose layout depends on the sizes of a run.
///
/// It grows to the largest layout. A run with the sizes of the run before neither computes a layout
/// nor allocates. The first `HEAD` blocks stay in place: they hold states.
#[derive(Clone, Default)]
pub struct DynamicArena<const HEAD: usize> {
    blocks: Vec<Block>,
    layout: Layout,
    granularity: Granularity,
}

impl<const HEAD: usize> DynamicArena<HEAD> {
    /// Creates an arena without allocating it.
    pub const fn new() -> DynamicArena<HEAD> {
        let layout = Layout { buffers: None, sizes: Vec::new(), places: Vec::new() };
        DynamicArena { blocks: Vec::new(), layout, granularity: Granularity::new() }
    }

    /// Returns the memory for a run that uses only the first `HEAD` blocks.
    pub fn blocks(&mut self) -> &mut [Block] {
        self.granularity.start();
        if self.blocks.len() < HEAD {
            self.blocks.resize(HEAD, Block::ZERO);
        }
        &mut self.blocks
    }

    /// Returns the memory for a run and its layout. The function `buffers` lists the buffers of a
    /// run with these sizes; it is only called if the run before had other sizes or buffers.
    ///
    /// # Errors
    ///
    /// Returns an error if there is not enough memory.
    #[inline]
    pub fn lay_out<F, const N: usize, const COUNT: usize>(
        &mut self,
        sizes: [usize; N],
        buffers: F,
    ) -> Result<(&mut [Block], &Layout)>
    where
        F: FnOnce([usize; N]) -> [Buffer; COUNT] + 'static,
    {
        self.granularity.start();
        let function = Some(TypeId::of::<F>());
        if self.layout.buffers != function || self.layout.sizes != sizes {
            self.change(&sizes, &buffers(sizes))?;
            self.layout.buffers = function;
        }
        Ok((&mut self.blocks, &self.layout))
    }

    /// Lays out `buffers`, and grows the memory if it is too small.
    fn change(&mut self, sizes: &[usize], buffers: &[Buffer]) -> Result {
        // An error leaves no layout.
        self.layout.buffers = None;
        self.layout.sizes.clear();
        let head = HEAD * Block::BYTES;
        let (bytes, offsets) = lay_out_checked(buffers, head)?;
        grow(&mut self.blocks, HEAD, (head + bytes).div_ceil(Block::BYTES))?;
        let places = offsets.into_iter().zip(buffers);
        self.layout.places.clear();
        self.layout.places.extend(places.map(|(at, buffer)| (head + at, buffer.bytes)));
        self.layout.sizes.extend_from_slice(sizes);
        Ok(())
    }

    /// Returns the size of the arena for these buffers, in bytes; `usize::MAX` if no memory can
    /// hold it.
    pub fn bytes_of(buffers: &[Buffer]) -> usize {
        let head = HEAD * Block::BYTES;
        lay_out_checked(buffers, head).map_or(usize::MAX, |(bytes, _)| head + bytes)
    }
}

/// Lays out buffers behind `head` bytes.
///
/// # Errors
///
/// Returns an error if the buffers do not fit the address space.
fn lay_out_checked(buffers: &[Buffer], head: usize) -> Result<(usize, Vec<usize>)> {
    let each = buffers.iter().map(|buffer| buffer.bytes.saturating_add(Block::BYTES));
    let all = each.fold(head, usize::saturating_add);
    if all > isize::MAX as usize {
        return Err(Error::Memory { bytes: all });
    }
    Ok(lay_out(buffers, 0))
}

/// Grows `blocks` to `count`, and keeps the first `head` of them.
///
/// # Errors
///
/// Returns an error, and keeps at least the first `head` blocks, if there is not enough memory.
fn grow(blocks: &mut Vec<Block>, head: usize, count: usize) -> Result {
    if blocks.len() >= count {
        return Ok(());
    }
    let mut kept = core::mem::take(blocks);
    kept.truncate(head);
    if kept.is_empty() {
        // No run needs the old memory, so it need not be there next to the new one.
        kept = Vec::new();
    }
    let mut grown = Vec::new();
    if grown.try_reserve_exact(count).is_err() {
        *blocks = kept;
        return Err(Error::Memory { bytes: count.saturating_mul(Block::BYTES) });
    }
    grown.extend_from_slice(&kept);
    grown.resize(count, Block::ZERO);
    *blocks = grown;
    Ok(())
}

/// Shows the size of the memory that is allocated.
impl<const HEAD: usize> fmt::Debug for DynamicArena<HEAD> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynamicArena({} bytes)", size_of_val(&self.blocks[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::borrow;

    const X: DynamicSlot<f32> = DynamicSlot::new(0, 1, 2);
    const Y: DynamicSlot<u8> = DynamicSlot::new(1, 2, 3);
    const Z: DynamicSlot<f32> = DynamicSlot::new(2, 3, 4);

    fn buffers([n]: [usize; 1]) -> [Buffer; 3] {
        [X.sized(&[4, n]), Y.sized(&[n]), Z.sized(&[2, n])]
    }

    #[test]
    fn a_layout_follows_the_sizes() {
        let mut arena = DynamicArena::<1>::new();
        for n in [16, 0, 100, 16] {
            let (blocks, layout) = arena.lay_out([n], buffers).expect("there is memory");
            let (x, y) = borrow(blocks, (layout.slot(X).write(), layout.slot(Y).write()));
            assert_eq!((x.len(), y.len()), (4 * n, n));
            x.fill(1.5);
            y.fill(7);
            let (y, z) = borrow(blocks, (layout.slot(Y).read(), layout.slot(Z).write()));
            assert!(y.iter().all(|&y| y == 7) && z.len() == 2 * n);
        }
        // The head, and `x` and `y` of the largest run.
        assert_eq!(arena.blocks.len(), 1 + 25 + 2);
        assert_eq!(DynamicArena::<1>::bytes_of(&buffers([100])), 28 * Block::BYTES);
    }

    #[test]
    fn scratch_memory_is_bounded() {
        assert_eq!(bounded(&[3, 0, 1 << 20], || 7), 7);
        assert_eq!(bounded(&[usize::MAX, 0], || unreachable!("it would overflow")), usize::MAX);
        let far = [1 << 30, 1 << 30];
        assert_eq!(bounded(&far, || unreachable!("it would overflow")), usize::MAX);
        let buffers = buffers([usize::MAX]);
        assert_eq!(DynamicArena::<1>::bytes_of(&buffers), usize::MAX);
    }

    #[test]
    fn the_head_survives_growth() {
        let mut arena = DynamicArena::<1>::new();
        let head = Slot::<u8>::new(0, 64);
        borrow(arena.blocks(), head.write()).fill(3);
        let (blocks, _) = arena.lay_out([1000], buffers).expect("there is memory");
        assert_eq!(borrow(blocks, head.read()), [3; 64]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends when there is no memory")]
    fn an_error_tells_the_memory_that_is_missing() {
        let mut arena = DynamicArena::<1>::new();
        borrow(arena.blocks(), Slot::<u8>::new(0, 64).write()).fill(3);
        let large = 1 << 56;
        let wanted = Error::Memory { bytes: 64 + 17 * large };
        assert_eq!(arena.lay_out([large], buffers).err(), Some(wanted));
        let endless = Error::Memory { bytes: usize::MAX };
        assert_eq!(arena.lay_out([usize::MAX], buffers).err(), Some(endless));
        assert_eq!(DynamicArena::<1>::bytes_of(&buffers([usize::MAX])), usize::MAX);
        assert_eq!(borrow(arena.blocks(), Slot::<u8>::new(0, 64).read()), [3; 64]);
        assert!(arena.lay_out([1], buffers).is_ok());
    }
}
