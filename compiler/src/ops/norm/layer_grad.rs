//! The gradients of `LayerNormalization` and `RMSNormalization`, fused into one kernel.

use super::{
    gradient::{Normalized, inverse_root},
    rows::{is_row, rows},
};
use crate::{
    diag::{Code, Result},
    dtype::F32_AND_F64,
    ir::{Attributes, Domain, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Arg, Kernel, geometry::Axis, kernel},
    ty::Type,
};
use std::rc::Rc;

/// The gradients `dx`, `dscale` and `dbias` of a normalization over the axes from `axis` on. Its
/// inputs are `x`, `scale` and `dy`. `dscale` and `dbias` have the shape of the scale, which has
/// one number for each element of a row.
pub struct Grad {
    /// The first axis that is normalized.
    pub axis: i64,
    /// Added to the variances.
    pub epsilon: f32,
    /// Whether the mean is subtracted (`LayerNormalization`). Otherwise there is no bias.
    pub centered: bool,
}

pub fn read(node: &mut Reader<'_>, centered: bool) -> Result<Rc<dyn Op>> {
    let (axis, epsilon) = (node.int("axis", -1)?, node.float("epsilon", 1e-5)?);
    Ok(Rc::new(Grad { axis, epsilon, centered }))
}

/// Returns whether [`Grad`] computes the gradients of a normalization: the scale has one number per
/// element of a row, and the type needs no rounding of intermediate results.
pub fn is_supported(g: &Gradient<'_>, axis: i64) -> bool {
    let (x, scale) = (g.x(0), g.x(1));
    let axis = g.axis(axis, x.rank());
    F32_AND_F64.contains(&x.dtype()) && is_row(&scale.dims(), &x.dims(), axis)
}

/// Sets the gradients of a normalization's inputs.
pub fn set_gradients(g: &mut Gradient<'_>, gradient: Grad) {
    let (x, scale, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return };
    // The shape of the bias may differ from that of the scale.
    let like_scale = g.optional(2).is_some_and(|bias| bias.dims() == scale.dims());
    let wanted = [g.wants(0), g.wants(1), g.wants(2) && like_scale];
    if g.wants(2) && !like_scale {
        g.set(2, dy);
    }
    let outputs = if gradient.centered { 3 } else { 2 };
    let gradients = g.tape().wanted(gradient, &[x, scale, dy], &wanted[..outputs]);
    for (i, gradient) in gradients.into_iter().enumerate() {
        if let Some(gradient) = gradient {
            g.set(i, gradient);
        }
    }
}

impl Grad {
    /// The gradients as compositions of other operators.
    fn formulas<'t>(&self, [x, scale, dy]: [Expr<'t>; 3], axis: usize) -> Vec<Expr<'t>> {
        let axes: Vec<usize> = (axis..x.rank()).collect();
        let others: Vec<usize> = (0..axis).collect();
        let sum_rows = |x: Expr<'t>| x.sum(&others).reshape_like(scale);
        let inner = dy * scale;
        if self.centered {
            let normalized = Normalized::of(x, &axes, self.epsilon);
            return vec![
                normalized.gradient(inner, &axes),
                sum_rows(dy * normalized.y),
                sum_rows(dy),
            ];
        }
        let factor = inverse_root((x * x).mean(&axes), self.epsilon);
        let y = x * factor;
        vec![factor * (inner - y * (inner * y).mean(&axes)), sum_rows(dy * y)]
    }
}

static LAYER: Kernel<(Axis, f32)> = kernel!(F32_AND_F64 T,
    norm::layer_normalization_grad::<T> { outputs: norm::LayerNormGrads {
        dx: optional_output(0), d_scale: optional_output(1), d_bias: optional_output(2),
    } }, |f, a, p| f(a.input(0), a.input(1), a.input(2), outputs, p.0, p.1));
static RMS: Kernel<(Axis, f32)> = kernel!(F32_AND_F64 T, norm::rms_normalization_grad::<T>,
    |f, a, p| f(
        a.input(0), a.input(1), a.input(2),
        a.optional_output(0), a.optional_output(1), p.0, p.1));

impl Op for Grad {
    fn name(&self) -> &'static str {
        if self.centered { "LayerNormalizationGrad" } else { "RMSNormalizationGrad" }
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.float("epsilon", self.epsilon);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (ty, scale) = (cx.of(0, F32_AND_F64)?.clone(), cx.of(1, F32_AND_F64)?.clone());
        cx.same_dtype(0, 1)?;
        cx.same_dtype(0, 2)?;
        let axis = cx.axis("axis", self.axis, ty.rank())?;
        let dy = cx.ranked(2, ty.rank())?.shape.clone();
        for (a, b) in ty.shape.iter().zip(&dy) {
            cx.require_equal(a, b, "the sizes of the input and of `dy`")?;
        }
        if scale.rank() > ty.rank() || !is_row(&scale.shape, &ty.shape, axis) {
            let message = "the scale must have one number for each element of a row";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        let types = [Type::from(ty), scale.clone().into(), scale.into()];
        Ok(types.into_iter().take(if self.centered { 3 } else { 2 }).collect())
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let axis = cx.axis(self.axis, ty.rank());
        let inputs = vec![cx.input(0)?.into(), cx.input(1)?.into(), cx.input(2)?.into()];
        let mut outputs = vec![cx.optional_output(0)?, cx.optional_output(1)?];
        if self.centered {
            outputs.push(cx.optional_output(2)?);
        }
        let kernel = if self.centered { &LAYER } else { &RMS };
        let outputs = outputs.into_iter().map(Arg::Optional).collect();
        cx.call_on(kernel, ty.dtype, inputs, outputs, (rows(&ty.shape, axis), self.epsilon))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let inputs = [g.x(0), g.x(1), g.x(2)];
        let axis = g.axis(self.axis, inputs[0].rank());
        let formulas = self.formulas(inputs, axis);
        g.through(&formulas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dtype::DType::F32,
        ops::testing::{check, tensor},
    };

    #[test]
    fn gradients_have_the_shapes_of_their_inputs() {
        let op = |centered| Grad { axis: -1, epsilon: 1e-5, centered };
        let x = || tensor(F32, [2, 3, 4]);
        let inputs = [x(), tensor(F32, [1, 4]), x()];
        check(op(true), &inputs, 3, "float[2, 3, 4]; float[1, 4]; float[1, 4]");
        check(op(false), &inputs, 2, "float[2, 3, 4]; float[1, 4]");
        let message = "the scale must have one number for each element of a row";
        check(op(true), &[x(), tensor(F32, [3, 1]), x()], 3, message);
    }
}
