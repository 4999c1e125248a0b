//! The weights of a model: bytes in the program, or bytes of an owner that models share.

use super::{Aligned, Plain, Slot, Trailer, outside};
use crate::Result;
use core::{fmt, ptr::NonNull};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use owned::copy_aligned;

/// The weights that a program gives to a model. Clones share the bytes.
///
/// They are `&'static` bytes, such as those at an address in flash, or with the feature `alloc` an
/// [`Arc`](alloc::sync::Arc) of anything that owns bytes, such as a mapped file or a vector. The
/// owner is dropped with the last model that uses it.
#[derive(Clone)]
pub struct Weights {
    /// Bytes that are initialized, and stay in place and unchanged while `owner` exists.
    bytes: NonNull<[u8]>,
    owner: Owner,
}

/// The owner of the bytes; nothing if they are static.
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
type Owner = Option<alloc::sync::Arc<dyn Send + Sync>>;
#[cfg(not(all(feature = "alloc", target_has_atomic = "ptr")))]
type Owner = ();

// SAFETY: the bytes are only read, as through `&[u8]`, and the owner is `Send`.
unsafe impl Send for Weights {}
// SAFETY: the bytes are only read, as through `&[u8]`, and the owner is `Sync`.
unsafe impl Sync for Weights {}

impl Weights {
    /// The alignment of weights in memory, in bytes.
    pub const ALIGNMENT: usize = 16;

    /// Returns the weights if they are a weights file of a model: `len` bytes of the layout
    /// `layout` and a [`Trailer`]. Only [`Self::verify`] reads the weights themselves.
    ///
    /// Bytes of an owner that are not aligned to [`Self::ALIGNMENT`] are copied to memory that is.
    ///
    /// # Errors
    ///
    /// Returns an error if the weights have another length or layout or no trailer, if they are
    /// static and not aligned, or if there is no memory for a copy.
    pub fn check(self, len: usize, layout: u64) -> Result<Weights> {
        let bytes = self.view().0;
        Trailer::check(bytes, len, layout)?;
        if bytes.as_ptr().addr().is_multiple_of(Weights::ALIGNMENT) {
            return Ok(self);
        }
        copy_aligned(bytes, &self.owner)
    }

    /// Borrows the weights for a run.
    #[inline(always)]
    pub fn view(&self) -> WeightsView<'_> {
        // SAFETY: the field says that the bytes are valid while `owner` exists. The view borrows
        // `self`, and with it `owner`.
        WeightsView(unsafe { self.bytes.as_ref() })
    }
}

impl From<&'static [u8]> for Weights {
    fn from(bytes: &'static [u8]) -> Weights {
        Weights { bytes: NonNull::from(bytes), owner: Owner::default() }
    }
}

impl<const N: usize> From<&'static [u8; N]> for Weights {
    fn from(bytes: &'static [u8; N]) -> Weights {
        Weights::from(&bytes[..])
    }
}

/// Shows the size of the weights.
impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weights({} bytes)", self.bytes.len())
    }
}

/// The weights of a run: those that the program gave to the model, or those of its module.
#[derive(Clone, Copy)]
pub struct WeightsView<'w>(pub(super) &'w [u8]);

impl<'w> WeightsView<'w> {
    /// Borrows `given`, or if there are none the weights in the module.
    #[inline(always)]
    pub fn new(given: &'w Option<Weights>, included: &'static Aligned<[u8]>) -> WeightsView<'w> {
        given.as_ref().map_or(WeightsView(&included.0), Weights::view)
    }

    /// Returns the elements of one weight.
    ///
    /// # Panics
    ///
    /// Panics if the slot is outside the weights, or the bytes are not valid elements. Neither
    /// happens to a generated module with the model's own weights.
    #[inline(always)]
    pub fn get<T: Plain>(&self, slot: Slot<T>) -> &'w [T] {
        let (start, end) = slot.range();
        let Some(bytes) = self.0.get(start..end) else { outside() };
        if !T::is_valid(bytes) {
            invalid();
        }
        // SAFETY: the bytes are those of `len` valid elements. They start at a multiple of the
        // element's size from an address that is aligned for every element.
        unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), slot.len) }
    }
}

/// Shows the size of the weights.
impl fmt::Debug for WeightsView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightsView({} bytes)", self.0.len())
    }
}

#[cold]
fn invalid() -> ! {
    panic!("the weights are not those of the model")
}

/// Returns an error: static bytes are not copied.
#[cfg(not(all(feature = "alloc", target_has_atomic = "ptr")))]
fn copy_aligned(_: &[u8], _: &Owner) -> Result<Weights> {
    Err(crate::Error::Alignment(Weights::ALIGNMENT))
}

/// Weights with an owner.
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
mod owned {
    use super::{NonNull, Owner, Weights};
    use crate::arena::{Block, Slot, borrow};
    use crate::{Error, Result};
    use alloc::{sync::Arc, vec::Vec};

    impl<T: AsRef<[u8]> + Send + Sync + 'static> From<Arc<T>> for Weights {
        /// Shares the bytes of `owner`. Its `as_ref` is called once.
        fn from(owner: Arc<T>) -> Weights {
            // What `Weights` relies on: the borrow checker accepts every use of this slice while
            // `*owner` is borrowed. `Weights` keeps a clone of the `Arc`, so `*owner` is neither
            // moved nor dropped, and as the clone is never given away, `Arc::get_mut`,
            // `Arc::make_mut` and `Arc::try_unwrap` of other clones give no access to it but a
            // shared one. So it could be borrowed until `Weights` drops the clone, and no view of
            // the bytes outlives the borrow of `Weights` that it was made from.
            let bytes = NonNull::from((*owner).as_ref());
            Weights { bytes, owner: Some(owner) }
        }
    }

    impl From<Vec<u8>> for Weights {
        /// Takes the bytes. They are copied if the vector is not aligned.
        fn from(bytes: Vec<u8>) -> Weights {
            Weights::from(Arc::new(bytes))
        }
    }

    /// Copies bytes to memory that is aligned, unless they are static.
    pub(super) fn copy_aligned(bytes: &[u8], owner: &Owner) -> Result<Weights> {
        if owner.is_none() {
            return Err(Error::Alignment(Weights::ALIGNMENT));
        }
        let count = bytes.len().div_ceil(Block::BYTES);
        let mut blocks = Vec::new();
        if blocks.try_reserve_exact(count).is_err() {
            return Err(Error::Memory { bytes: bytes.len() });
        }
        blocks.resize(count, Block::ZERO);
        let copy = borrow(&mut blocks, Slot::new(0, bytes.len()).write());
        copy.copy_from_slice(bytes);
        Ok(Weights::from(Arc::new(AlignedCopy { blocks, len: bytes.len() })))
    }

    /// A copy of bytes.
    struct AlignedCopy {
        blocks: Vec<Block>,
        len: usize,
    }

    impl AsRef<[u8]> for AlignedCopy {
        fn as_ref(&self) -> &[u8] {
            let bytes: &[[u8; Block::BYTES]] = Block::arrays(&self.blocks);
            &bytes.as_flattened()[..self.len]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    static BYTES: &Aligned<[u8]> = &Aligned([0, 0, 128, 63, 0, 0, 0, 64]);
    const SLOT: Slot<f32> = Slot::new(0, 2);
    const LAYOUT: u64 = 7;
    /// A weights file of [`BYTES`].
    static FILE: &Aligned<[u8; 32]> = &Aligned(file());

    const fn file() -> [u8; 32] {
        let mut file = [0; 32];
        let (weights, trailer) = file.split_at_mut(8);
        weights.copy_from_slice(&BYTES.0);
        trailer.copy_from_slice(&Trailer { layout: LAYOUT, checksum: 0 }.to_bytes());
        file
    }

    fn read(weights: Weights) -> [f32; 2] {
        let given = Some(weights);
        let view = WeightsView::new(&given, &Aligned([0; 0]));
        [0, 1].map(|i| view.get(SLOT)[i])
    }

    #[test]
    fn weights_are_checked_against_the_model() {
        assert_eq!(WeightsView::new(&None, BYTES).get(SLOT), [1.0, 2.0]);
        let check = |bytes| Weights::from(&FILE.0).check(bytes, LAYOUT);
        assert_eq!(check(8).map(read), Ok([1.0, 2.0]));
        assert!(matches!(check(9), Err(Error::Weights { expected: 33, found: 32 })));
        let unaligned = Weights::from(&FILE.0[1..]).check(7, LAYOUT);
        assert!(matches!(unaligned, Err(Error::Alignment(_))));
    }

    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    mod owned {
        use super::*;
        use alloc::{sync::Arc, vec::Vec};
        use core::sync::atomic::{AtomicUsize, Ordering};

        /// Bytes that start `offset` after an aligned address, and count how often they are
        /// borrowed and dropped.
        struct Counted {
            bytes: Aligned<[u8; 64]>,
            offset: usize,
            borrowed: Arc<AtomicUsize>,
            dropped: Arc<AtomicUsize>,
        }

        impl Counted {
            fn new(offset: usize) -> Counted {
                let mut bytes = Aligned([0; 64]);
                bytes.0[offset..][..32].copy_from_slice(&FILE.0);
                Counted { bytes, offset, borrowed: Arc::default(), dropped: Arc::default() }
            }
        }

        impl AsRef<[u8]> for Counted {
            fn as_ref(&self) -> &[u8] {
                self.borrowed.fetch_add(1, Ordering::Relaxed);
                &self.bytes.0[self.offset..][..32]
            }
        }

        impl Drop for Counted {
            fn drop(&mut self) {
                self.bytes.0.fill(0xff);
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }

        #[test]
        fn the_owner_is_dropped_once_with_the_last_clone() {
            let owner = Arc::new(Counted::new(0));
            let (borrowed, dropped) = (owner.borrowed.clone(), owner.dropped.clone());
            let weights = Weights::from(owner).check(8, LAYOUT).expect("the weights are aligned");
            let clones: Vec<Weights> = (0..4).map(|_| weights.clone()).collect();
            drop(weights);
            for clone in clones {
                assert_eq!(dropped.load(Ordering::Relaxed), 0);
                assert_eq!(read(clone), [1.0, 2.0]);
            }
            assert_eq!([borrowed, dropped].map(|count| count.load(Ordering::Relaxed)), [1, 1]);
        }

        #[test]
        fn an_owner_is_borrowed_while_weights_exist() {
            let mut owner = Arc::new(Counted::new(0));
            let weights = Weights::from(owner.clone());
            assert!(Arc::get_mut(&mut owner).is_none());
            let dropped = owner.dropped.clone();
            drop(owner);
            assert_eq!(dropped.load(Ordering::Relaxed), 0);
            let checked = weights.check(7, LAYOUT);
            assert!(matches!(checked, Err(Error::Weights { expected: 31, found: 32 })));
            assert_eq!(dropped.load(Ordering::Relaxed), 1);
        }

        #[test]
        fn an_unaligned_owner_is_copied_and_dropped() {
            for offset in [1, 4, 15] {
                let owner = Counted::new(offset);
                let dropped = owner.dropped.clone();
                let weights = Weights::from(Arc::new(owner)).check(8, LAYOUT);
                assert_eq!(dropped.load(Ordering::Relaxed), 1);
                assert_eq!(weights.map(read), Ok([1.0, 2.0]));
            }
        }

        #[test]
        fn a_vector_is_an_owner() {
            let weights = Weights::from(FILE.0.to_vec()).check(8, LAYOUT);
            assert_eq!(weights.clone().map(read), Ok([1.0, 2.0]));
            assert_eq!(weights.map(read), Ok([1.0, 2.0]));
            let empty = Trailer { layout: LAYOUT, checksum: 0 }.to_bytes();
            assert!(Weights::from(empty.to_vec()).check(0, LAYOUT).is_ok());
        }

        #[cfg(feature = "std")]
        #[test]
        fn threads_share_weights() {
            fn assert_shared<T: Send + Sync>() {}
            assert_shared::<Weights>();
            let owner = Arc::new(Counted::new(0));
            let dropped = owner.dropped.clone();
            let weights = Weights::from(owner);
            let threads = [0; 8].map(|_| {
                let weights = weights.clone();
                std::thread::spawn(move || read(weights))
            });
            drop(weights);
            for thread in threads {
                assert_eq!(thread.join().ok(), Some([1.0, 2.0]));
            }
            assert_eq!(dropped.load(Ordering::Relaxed), 1);
        }
    }
}
