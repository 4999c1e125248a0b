//! Convolutions whose windows' elements each have a place of their own.

use super::{bias, convolved, geometry, macs};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Infer, Inferred, Lower, Op},
    ops::{Entry, entry, window::Window},
    plan::{Kernel, geometry::Conv, kernel},
    ty::Type,
};
use onnxc_runtime::{Float, deform_conv::MAX_AXES};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("DeformConv", 19, |node| {
    Ok(Rc::new(DeformConv {
        window: Window::read(node)?,
        group: node.int("group", 1)?,
        offset_group: node.int("offset_group", 1)?,
    }))
})];

/// The convolution with each element of each window moved as the third input says, and multiplied
/// with what the fifth says.
pub struct DeformConv {
    /// The window.
    pub window: Window,
    /// The number of groups that the channels are cut into.
    pub group: i64,
    /// The number of groups of channels that are moved apart.
    pub offset_group: i64,
}

static DEFORM_CONV: Kernel<(Conv, usize)> = kernel!(FLOATS T, deform_conv::deform_conv::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.optional(3), a.optional(4), a.output(0),
        a.output::<<T as Float>::Wide>(1), p.0, p.1));

impl DeformConv {
    /// Looks over input `i`, which has so many numbers for each element of the window and each
    /// group at each place.
    fn check(&self, cx: &mut Infer<'_>, i: usize, each: usize, shape: &[Dim]) -> Inferred<()> {
        cx.same_dtype(0, i)?;
        let found = &cx.ranked(i, shape.len())?.shape;
        let taps: Dim = cx.shape(1)?[2..].iter().product();
        let mut wanted = shape.to_vec();
        wanted[1] = taps * self.offset_group * each;
        for (a, b) in found.iter().zip(&wanted) {
            cx.require_equal(a, b, &format!("a size of input {i} and what the window wants"))?;
        }
        Ok(())
    }
}

impl Op for DeformConv {
    fn name(&self) -> &'static str {
        "DeformConv"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
        a.int("offset_group", self.offset_group);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        cx.same_dtype(0, 1)?;
        let shape = convolved(cx, &self.window, self.group, [0, 1])?;
        let axes = shape.len() - 2;
        if axes > MAX_AXES {
            let message = format!("images of {axes} axes: at most {MAX_AXES} are supported");
            return Err(cx.finding(Code::Unsupported, message));
        }
        if self.offset_group < 1 || self.offset_group > i64::from(i32::MAX) {
            let message = format!("`offset_group` is {}", self.offset_group);
            return Err(cx.finding(Code::BadAttribute, message));
        }
        let channels = &cx.shape(0)?[1];
        let whole = channels.floor_div(&self.offset_group.into()) * self.offset_group;
        cx.require_equal(channels, &whole, "the channels and a multiple of `offset_group`")?;
        self.check(cx, 2, axes, &shape)?;
        bias(cx, 3, &shape[1])?;
        if cx.has(4) {
            self.check(cx, 4, 1, &shape)?;
        }
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, &self.window, self.group, [0, 1])?;
        cx.macs(&macs(&geometry));
        let groups = usize::try_from(self.offset_group).expect("inferring saw that it is positive");
        let taps = geometry.kernel.iter().product::<Dim>();
        let dtype = cx.ty(0)?.dtype;
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let scratch = cx.scratch(wide, taps * &cx.ty(0)?.shape[1]);
        let inputs = vec![
            cx.input(0)?.into(),
            cx.input(1)?.into(),
            cx.input(2)?.into(),
            cx.optional(3)?.into(),
            cx.optional(4)?.into(),
        ];
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        cx.call_on(&DEFORM_CONV, dtype, inputs, outputs, (geometry, groups))
    }
}
