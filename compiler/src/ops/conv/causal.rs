//! `CausalConvWithState`: depthwise convolutions along time that keep their state between calls.

use super::{Conv, check_bias};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::FLOATS,
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op},
    ops::{Entry, entry},
    plan::{Kernel, geometry::CausalConv, kernel},
    ty::Type,
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("CausalConvWithState", 27, |node| {
    let choices = [("none", false), ("silu", true), ("swish", true)];
    Ok(Rc::new(CausalConvWithState { silu: node.choice("activation", &choices)? }))
})];

/// A causal depthwise convolution of signals `[batch, channels, length]`. The state is the last
/// `k - 1` elements of each channel, for filters of `k` elements.
pub struct CausalConvWithState {
    /// Whether `SiLU` is applied to the result.
    pub silu: bool,
}

static CAUSAL_CONV: Kernel<(CausalConv, Activation)> = kernel!(FLOATS T,
    conv::causal_conv_with_state::<T> { operands: conv::CausalConvOperands {
        x: input(0), w: input(1), bias: optional(2), past: optional(3),
    } }, |f, a, p| f(operands, a.output(0), a.optional_output(1), p.0, p.1));

impl Op for CausalConvWithState {
    fn name(&self) -> &'static str {
        "CausalConvWithState"
    }

    fn attributes(&self, a: &mut Attributes) {
        if self.silu {
            a.string("activation", "silu");
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        cx.same_dtype(0, 1)?;
        let ([batch, channels, len], [filters, one, kernel]) =
            (&*cx.ranked(0, 3)?.shape, &*cx.ranked(1, 3)?.shape)
        else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the signals have no channels"));
        };
        cx.require_equal(channels, filters, "the number of channels and of filters")?;
        cx.require_equal(one, &1.into(), "the number of channels of a filter and 1")?;
        cx.require_at_least(kernel, &1.into(), "the size of the filters must be at least 1")?;
        check_bias(cx, 2, channels)?;
        let state = vec![batch.clone(), channels.clone(), kernel - 1];
        if cx.has(3) {
            cx.same_dtype(0, 3)?;
            for (a, b) in cx.ranked(3, 3)?.shape.iter().zip(&state) {
                cx.require_equal(a, b, "a size of the state and the expected size")?;
            }
        }
        let signal: Vec<Dim> = vec![batch.clone(), channels.clone(), len.clone()];
        Ok(vec![Type::tensor(dtype, signal), Type::tensor(dtype, state)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let [batch, channels, len] =
            [0, 1, 2].map(|axis| cx.ty(0).map(|ty| ty.shape[axis].clone()));
        let kernel = cx.ty(1)?.shape[2].clone();
        let geometry = CausalConv { batch: batch?, channels: channels?, len: len?, kernel };
        cx.macs(&(&geometry.batch * &geometry.channels * &geometry.len * &geometry.kernel));
        let inputs = vec![
            cx.input(0)?.into(),
            cx.input(1)?.into(),
            cx.optional(2)?.into(),
            cx.optional(3)?.into(),
        ];
        let y = match cx.optional_output(0)? {
            Some(y) => y,
            None => cx.scratch(cx.ty(0)?.dtype, cx.ty(0)?.len()),
        };
        let outputs = vec![y.into(), cx.optional_output(1)?.into()];
        let f = if self.silu { Activation::Swish { alpha: 1.0 } } else { Activation::Identity };
        cx.call_on(&CAUSAL_CONV, cx.ty(0)?.dtype, inputs, outputs, (geometry, f))
    }

    /// Expresses the operator as a convolution of the state followed by the signal, and
    /// differentiates that.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, w) = (g.x(0), g.x(1));
        let (Some(kernel), Some(group)) = (w.dims()[2].known(), x.dims()[1].known()) else {
            return Err(g.unsupported("for filters of a size known only at run time"));
        };
        let all = match g.optional(3) {
            Some(past) => past.concat(&[x], 2),
            None => x.pad(g.tape().ints(&[0, 0, kernel - 1, 0, 0, 0])),
        };
        let inputs = [Some(all), Some(w), g.optional(2)];
        let conv = g.tape().node(Rc::new(Conv::depthwise(group)), &inputs, 1)[0];
        let y = if self.silu { conv * conv.sigmoid() } else { conv };
        let state = all.between(x.size_of(2), g.tape().ints(&[i64::MAX]), 2);
        g.through(&[y, state])
    }
}
