//! `STFT`: the short-time Fourier transform.

use super::{DFT, REAL_DFT, cast_size_to_i64, known_size, signal};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Reader},
    ops::{Entry, entry, reshape::Reshape},
    plan::{
        Kernel,
        geometry::{Lines, Transform},
        kernel,
    },
    tensor::Tensor,
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("STFT", 17, |node| {
    cast_size_to_i64(node, 1)?;
    cast_size_to_i64(node, 3)?;
    add_parts(node)?;
    Ok(Rc::new(Stft { onesided: node.flag("onesided", true)? }))
})];

/// Adds the axis of the parts to signals of two axes, `[batch, length]`, with a warning: exporters
/// write them and ONNX Runtime reads them as real numbers.
fn add_parts(node: &mut Reader<'_>) -> Result {
    if node.ty(0).and_then(Type::as_tensor).is_none_or(|ty| ty.rank() != 2) {
        return Ok(());
    }
    let message = "input 0 has two axes, but must have three: batch, length, and parts";
    let warning = Diagnostic::warning(Code::ShapeMismatch, message);
    node.warnings.push(warning.note("the numbers are read as real, with a last axis of size 1"));
    node.wrap_input(0, Reshape { allowzero: false }, &[Tensor::from_ints(&[0, 0, 1])])
}

/// The Fourier transforms of frames of each signal. Input 1 is the step between frames, the
/// optional input 2 a window that each frame is multiplied by, and the optional input 3 the length
/// of a frame: by default the length of the window, or else of the signal.
pub struct Stft {
    /// Whether each transform lacks its redundant conjugate half.
    pub onesided: bool,
}

static FRAME_SIZES: Kernel<(Dim, Option<Dim>)> = kernel!(checked I64_ONLY T, fourier::frame_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), a.optional(1), p.0, p.1));

/// The frames of a signal.
struct Frames {
    /// The length of a frame.
    n: Dim,
    /// The number of frames.
    count: Dim,
}

impl Stft {
    /// The number of results of a transform of length `n`.
    fn result_len(&self, n: &Dim) -> Dim {
        if self.onesided { n.floor_div(&2.into()) + 1 } else { n.clone() }
    }

    /// Infers and checks the frames of a signal of `len` elements.
    fn frames(&self, cx: &mut Infer<'_>, len: &Dim) -> Inferred<Frames> {
        let step = known_size(cx, 1, 1, "the step between frames")?;
        let window = match cx.has(2) {
            true => Some(&cx.ranked(2, 1)?.shape[0]),
            false => None,
        };
        let length = match cx.has(3) {
            true => known_size(cx, 3, 1, "the length of a frame must be at least 1")?,
            false => Some(window.unwrap_or(len).clone()),
        };
        if let (Some(window), Some(n)) = (window, &length) {
            cx.require_equal(window, n, "the lengths of the window and of a frame")?;
        }
        Ok(match (step, length) {
            (Some(step), Some(n)) => {
                cx.require_at_least(&n, &1.into(), "the length of a frame must be at least 1")?;
                cx.require_at_least(len, &n, "the signal must not be shorter than a frame")?;
                let count = (len - &n).floor_div(&step) + 1;
                Frames { n, count }
            }
            (_, n) => {
                let most = cx.upper(len);
                let fresh = cx.fresh_sizes([None, most, most]);
                let n = n.or_else(|| window.cloned()).unwrap_or_else(|| fresh[1].clone());
                Frames { n, count: fresh[2].clone() }
            }
        })
    }
}

impl Op for Stft {
    fn name(&self) -> &'static str {
        "STFT"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("onesided", self.onesided);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (signal, _) = signal(cx)?;
        let [batch, len] = signal else {
            let message =
                "input 0 must have three axes: batch, length, and real and imaginary parts";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        };
        let dtype = cx.ty(0)?.dtype;
        if cx.has(2) {
            cx.same_dtype(0, 2)?;
        }
        let frames = self.frames(cx, len)?;
        let shape = [batch.clone(), frames.count, self.result_len(&frames.n), 2.into()];
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, y) = (&cx.ty(0)?.shape, &cx.output_ty(0)?.shape);
        let (len, parts) = (&x[1], &x[2]);
        let window = if cx.has(2) { Some(cx.ty(2)?.shape[0].clone()) } else { None };
        let (step, length) = (cx.input(1)?.into(), cx.optional(3)?.into());
        let inputs = vec![step, length];
        cx.bind(&FRAME_SIZES, DType::I64, inputs, (len.clone(), window.clone()))?;
        let bound = |i: usize| cx.node().binds.get(i).map(|symbol| Dim::symbol(symbol));
        let known = |i: usize| cx.known(i).and_then(<[Dim]>::first).cloned();
        let missing = || cx.unsupported("a step or a length of unknown value");
        let step = bound(0).or_else(|| known(1)).ok_or_else(missing)?;
        let n = match (window, cx.has(3)) {
            (Some(window), _) => window,
            (None, true) => known(3).or_else(|| bound(1)).ok_or_else(missing)?,
            (None, false) => len.clone(),
        };
        let (frames, taken) = (&y[1], &y[2]);
        let geometry = Transform {
            given: n.clone(),
            taken: taken.clone(),
            parts: parts.clone(),
            lanes: 1,
            from: Lines {
                batch: x[0].clone(),
                batch_stride: len * parts,
                lines: frames.clone(),
                line: step * parts,
                step: parts.clone(),
            },
            to: Lines {
                batch: x[0].clone(),
                batch_stride: frames * taken * 2,
                lines: frames.clone(),
                line: taken * 2,
                step: 2.into(),
            },
            n,
        };
        let kernels = if parts.known() == Some(1) { &REAL_DFT } else { &DFT };
        let window = cx.optional(2)?.into();
        kernels.call(cx, window, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.set_gradients(g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};

    #[test]
    fn the_number_of_frames_follows_from_step_and_length() {
        let signal = |parts| tensor(DType::F32, [Dim::symbol("b"), 128.into(), Dim::from(parts)]);
        let (ints, none) = (|n| Given::Ints(vec![n]), || Given::Nothing);
        let stft = |onesided| Stft { onesided };
        check(stft(true), &[signal(1), ints(8), none(), ints(16)], 1, "float[b, 15, 9, 2]");
        check(stft(false), &[signal(2), ints(8), none(), ints(16)], 1, "float[b, 15, 16, 2]");
        let window = || tensor(DType::F32, [Dim::from(12)]);
        check(stft(true), &[signal(1), ints(10), window()], 1, "float[b, 12, 7, 2]");
        check(stft(true), &[signal(1), ints(10)], 1, "float[b, 1, 65, 2]");
        let any = || tensor::<Dim, 0>(DType::I64, []);
        check(stft(true), &[signal(1), any(), window()], 1, "float[b, y0_2, 7, 2]");
        let all = "float[b, y0_2, y0_1 / 2 + 1, 2]";
        check(stft(true), &[signal(1), ints(3), none(), any()], 1, all);
    }

    #[test]
    fn frames_longer_than_the_signal_and_steps_of_zero_are_errors() {
        let signal = || tensor(DType::F32, [1, 8, 1]);
        let (ints, none) = (|n| Given::Ints(vec![n]), || Given::Nothing);
        let stft = || Stft { onesided: true };
        let expected = "the signal must not be shorter than a frame: 8 is less than 9";
        check(stft(), &[signal(), ints(2), none(), ints(9)], 1, expected);
        let expected = "the step between frames: 0 is less than 1";
        check(stft(), &[signal(), ints(0), none(), ints(4)], 1, expected);
        let expected = "the lengths of the window and of a frame must be equal, but are 5 and 4";
        check(stft(), &[signal(), ints(2), tensor(DType::F32, [5]), ints(4)], 1, expected);
    }
}
