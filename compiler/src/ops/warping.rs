//! `DynamicTimeWarping` of ONNX Runtime.

use super::{Entry, microsoft};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, F32_ONLY},
    ir::{Domain, Infer, Inferred, Lower, Op},
    plan::{Kernel, Operand, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] =
    &[microsoft("DynamicTimeWarping", |_| Ok(Rc::new(DynamicTimeWarping) as Rc<dyn Op>))];

/// The rows and the columns of the elements on the cheapest path through a matrix of costs:
/// `int32[2, steps]`.
struct DynamicTimeWarping;

static WARPING: Kernel<(Dim,)> = kernel!(F32_ONLY T, warping::dynamic_time_warping,
    |f, a, p| f(a.sizes(), a.input::<T>(0), a.output(0), a.output(1), a.output(2), p.0));

impl Op for DynamicTimeWarping {
    fn name(&self) -> &'static str {
        "DynamicTimeWarping"
    }

    fn domain(&self) -> Domain {
        Domain::Microsoft
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (rows, columns) = match &*cx.of(0, F32_ONLY)?.shape {
            [rows, columns] => (rows, columns),
            [one, rows, columns] => {
                cx.require_equal(one, &1.into(), "the number of matrices and 1")?;
                (rows, columns)
            }
            shape => {
                let message =
                    format!("input 0 must have two axes, or three, but has {}", shape.len());
                return Err(cx.diagnostic(Code::ShapeMismatch, message));
            }
        };
        let most = cx.upper(&(rows + columns));
        let steps = cx.fresh_sizes([most]).remove(0);
        Ok(vec![Type::tensor(DType::I32, [2.into(), steps])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if cx.node().binds.is_empty() {
            return Ok(());
        }
        let shape = &cx.ty(0)?.shape;
        let (rows, columns) = (&shape[shape.len() - 2], shape[shape.len() - 1].clone());
        let path = cx.scratch(DType::I32, (rows + &columns) * 2);
        let moves = cx.scratch(DType::U8, rows * &columns);
        let sums = cx.scratch(DType::F32, &columns + &Dim::from(1));
        let inputs = vec![cx.input(0)?.into()];
        let outputs = vec![path.clone().into(), moves.into(), sums.into()];
        cx.bind_with(&WARPING, DType::F32, inputs, outputs, (columns,))?;
        let y = cx.output(0)?;
        let path = Operand { len: y.len.clone(), ..path };
        cx.copy(path, y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check, tensor};

    #[test]
    fn the_length_of_the_path_is_known_at_run_time() {
        check(DynamicTimeWarping, &[tensor(DType::F32, [3, 4])], 1, "int32[2, y0_0]");
        check(DynamicTimeWarping, &[tensor(DType::F32, [1, 3, 4])], 1, "int32[2, y0_0]");
        let expected = "input 0 must have two axes, or three, but has 1";
        check(DynamicTimeWarping, &[tensor(DType::F32, [3])], 1, expected);
    }
}
