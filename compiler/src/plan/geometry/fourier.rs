//! The geometry of Fourier transforms.

use crate::{dim::Dim, plan::formula::formulas};
use onnxc_runtime::kernels::fourier;

formulas! {
    /// The strides of lines in a tensor.
    "kernels::fourier::Lines" Lines: fourier::Lines {
        batch: Dim,
        batch_stride: Dim,
        lines: Dim,
        line: Dim,
        step: Dim,
    }

    /// The geometry of a transform.
    "kernels::fourier::Transform" Transform: fourier::Transform {
        n: Dim,
        given: Dim,
        taken: Dim,
        parts: Dim,
        lanes: usize,
        from: Lines,
        to: Lines,
    }

    /// The form of the input and output lines.
    "kernels::fourier::Ends" Ends: fourier::Ends {
        axis: usize,
        halved_input: bool,
        halved_output: bool,
    }
}

impl Lines {
    /// Returns the lines along an axis of size `len` between axes of sizes `outer` and `inner`; an
    /// element has `parts` parts.
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
