//! Files of NumPy: `.npy`, and `.npz` archives of them.

use crate::{npy, npz};
use onnxc::tensor::Tensor;

/// Runs the target. The first byte chooses between an array and an archive.
pub fn run(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    match kind % 2 {
        0 => npy::read(bytes).iter().for_each(check),
        _ => npz::read(bytes).iter().flat_map(|tensors| tensors.values()).for_each(check),
    }
}

/// Asserts that a tensor that is written is read as it was. Types that NumPy lacks are not written.
fn check(tensor: &Tensor) {
    let Ok(written) = npy::write(tensor) else { return };
    let again = npy::read(&written);
    let again = again.unwrap_or_else(|error| panic!("{tensor:?} is written but not read: {error}"));
    assert!(format!("{tensor:?}") == format!("{again:?}"), "{tensor:?} is read as {again:?}");
}
