//! The geometries of Fourier transforms.

use crate::{dim::Dim, plan::formula::formulas};
use onnxc_runtime::kernels::fourier;

formulas! {
    /// Lines of a tensor, in batch.
    "kernels::fourier::Lines" Lines: fourier::Lines {
        batch: Dim,
        batch_stride: Dim,
        lines: Dim,
        line: Dim,
        step: Dim,
    }

    /// Lines that are transformed, and their length.
    "kernels::fourier::Transform" Transform: fourier::Transform {
        n: Dim,
        given: Dim,
        taken: Dim,
        parts: Dim,
        lanes: usize,
        from: Lines,
        to: Lines,
    }

    /// What a transform is given and gives of a line.
    "kernels::fourier::Ends" Ends: fourier::Ends {
        axis: usize,
        halved_input: bool,
        halved_output: bool,
    }
}

impl Lines {
    /// The lines along an axis of size `len`, with `outer` in front of it and `inner` behind, of
    /// numbers of some parts.
    pub fn along(outer: &Dim, len: &Dim, inner: &Dim, parts: &Dim) -> Lines {
        Lines {
            batch: outer.clone(),
            batch_stride: len * inner * parts,
            lines: inner.clone(),
            line: parts.clone(),
            step: inner * parts,
        }
    }
}
