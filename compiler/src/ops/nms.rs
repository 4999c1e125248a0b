//! `NonMaxSuppression`: keeps the box with the highest score of those that overlap.

use super::{Entry, entry};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Infer, Inferred, Lower, Op},
    plan::{Arg, Kernel, geometry::Boxes, kernel},
    tensor::Tensor,
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("NonMaxSuppression", 10, |node| {
    Ok(Rc::new(NonMaxSuppression { centers: node.flag("center_point_box", false)? }))
})];

/// The batch index, class and box index of each kept box: `int64[kept, 3]`. Its inputs are `boxes`,
/// `scores`, `max_output_boxes_per_class`, `iou_threshold` and `score_threshold`.
pub struct NonMaxSuppression {
    /// Whether boxes have the form center and size, else two corners: `center_point_box`.
    pub centers: bool,
}

macro_rules! select_kernel {
    ($name:ident) => {
        kernel!(F32_ONLY T, nms::$name { operands: nms::BoxOperands {
            boxes: input(0), scores: input(1), count: optional(2), overlap: optional(3),
            score: optional(4),
        } }, |f, a, p| f(a.sizes(), operands, a.output(0), a.output(1), p))
    };
}

static CORNERS: Kernel<Boxes> = select_kernel!(select_corners);
static CENTERS: Kernel<Boxes> = select_kernel!(select_centers);

/// The input `max_output_boxes_per_class`.
const COUNT: usize = 2;

/// The maximum number of kept boxes, from the shapes of the boxes and of the scores, and
/// `max_output_boxes_per_class`.
fn max_kept(boxes: &[Dim], scores: &[Dim], count: Option<&Tensor>) -> Dim {
    let count = count.and_then(Tensor::ints).and_then(|count| count.first().copied());
    let per_class = match count {
        Some(count) => boxes[1].at_most(&count.max(0).into()),
        None => boxes[1].clone(),
    };
    &boxes[0] * &scores[1] * per_class
}

impl Op for NonMaxSuppression {
    fn name(&self) -> &'static str {
        "NonMaxSuppression"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("center_point_box", self.centers);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, &[DType::F32])?;
        cx.of(1, &[DType::F32])?;
        let (boxes, scores) = (&cx.ranked(0, 3)?.shape, &cx.ranked(1, 3)?.shape);
        cx.require_equal(&boxes[0], &scores[0], "the batch sizes of boxes and of scores")?;
        cx.require_equal(&boxes[1], &scores[2], "the numbers of boxes and of scores")?;
        cx.require_equal(&boxes[2], &4.into(), "the number of coordinates of a box and 4")?;
        for (i, dtype) in [(COUNT, DType::I64), (3, DType::F32), (4, DType::F32)] {
            if cx.has(i) {
                cx.of(i, &[dtype])?;
                cx.require_one_element(i)?;
            }
        }
        let max = max_kept(boxes, scores, cx.constant(COUNT));
        let kept = match cx.has(COUNT) && max.known() != Some(0) {
            true => cx.fresh_sizes([cx.upper(&max)]).remove(0),
            false => 0.into(),
        };
        Ok(vec![Type::tensor(DType::I64, [kept, 3.into()])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if cx.node().binds.is_empty() {
            return Ok(());
        }
        let (boxes, scores) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let geometry =
            Boxes { images: boxes[0].clone(), classes: scores[1].clone(), boxes: boxes[1].clone() };
        let kept = cx.scratch(DType::I64, max_kept(boxes, scores, cx.constant(COUNT)) * 3);
        let order = cx.scratch(DType::I64, boxes[1].clone());
        let mut inputs: Vec<Arg> = vec![cx.input(0)?.into(), cx.input(1)?.into()];
        for i in COUNT..5 {
            inputs.push(cx.optional(i)?.into());
        }
        let outputs = vec![kept.clone().into(), order.into()];
        let kernel = if self.centers { &CENTERS } else { &CORNERS };
        cx.bind_with(kernel, DType::F32, inputs, outputs, geometry)?;
        let y = cx.output(0)?;
        let boxes = crate::plan::Operand { len: y.len.clone(), ..kept };
        cx.copy(boxes, y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::{F32, I64};

    #[test]
    fn the_number_of_kept_boxes_is_data_dependent() {
        let n = || Dim::symbol("n");
        let boxes = || tensor(F32, [2.into(), n(), 4.into()]);
        let scores = || tensor(F32, [2.into(), 5.into(), n()]);
        for centers in [false, true] {
            let op = || NonMaxSuppression { centers };
            let runtime = [boxes(), scores(), tensor(I64, [1]), tensor(F32, [1])];
            check(op(), &runtime, 1, "int64[y0_0, 3]");
            let constant = [boxes(), scores(), Given::Ints(vec![3])];
            check(op(), &constant, 1, "int64[y0_0, 3]");
            check(op(), &[boxes(), scores()], 1, "int64[0, 3]");
            check(op(), &[boxes(), scores(), Given::Ints(vec![0])], 1, "int64[0, 3]");
        }
        let error = "the numbers of boxes and of scores must be equal, but are 6 and 7";
        let inputs = [tensor(F32, [2, 6, 4]), tensor(F32, [2, 5, 7])];
        check(NonMaxSuppression { centers: true }, &inputs, 1, error);
    }

    #[test]
    fn at_most_all_boxes_of_each_class_are_kept() {
        let dims = |sizes: [i64; 3]| sizes.map(Dim::from);
        let (boxes, scores) = (dims([2, 10, 4]), dims([2, 5, 10]));
        let of = |count: Option<i64>| {
            max_kept(&boxes, &scores, count.map(Tensor::from_int).as_ref()).known()
        };
        assert_eq!(of(Some(3)), Some(30));
        assert_eq!((of(Some(99)), of(None), of(Some(-1))), (Some(100), Some(100), Some(0)));
    }
}
