//! The internal operator `StridedAttention`: attention that reads its operands, and writes its
//! result, in the layouts of the values that transpositions would move.

use super::{Attention, Sizes, call_attention};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader},
    ops::{Entry, internal},
    plan::geometry::strides,
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("StridedAttention", |node| {
    let operand = |node: &mut Reader<'_>, name: &str| {
        let numbers = node.maybe_ints(name)?.unwrap_or_default();
        let numbers = <[i64; 5]>::try_from(numbers).ok();
        numbers.and_then(HeadAxes::from_numbers).ok_or_else(|| {
            let message =
                format!("`{name}` must be the axes of batch, heads and rows, and a place");
            Diagnostic::new(Code::BadAttribute, message)
        })
    };
    let operands = [operand(node, "q_axes")?, operand(node, "k_axes")?, operand(node, "v_axes")?];
    Ok(Rc::new(StridedAttention { operands, scale: node.maybe_float("scale")?.unwrap_or(1.0) }))
})];

/// The axes of a tensor that are `[batch, heads, rows]` of an operand. The last axis holds the
/// elements of a row; another axis may have a fixed index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadAxes {
    /// The axes of sequences, heads and rows.
    pub axes: [usize; 3],
    /// An axis, and the index along it.
    pub fixed: Option<(usize, i64)>,
}

impl HeadAxes {
    /// The axes of `[batch, heads, rows, size]`.
    pub const IN_ORDER: HeadAxes = HeadAxes { axes: [0, 1, 2], fixed: None };

    /// Returns the three axes, the fixed axis or -1, and the index.
    fn numbers(&self) -> [i64; 5] {
        let [batch, heads, rows] = self.axes.map(|axis| axis as i64);
        let (axis, index) = self.fixed.map_or((-1, 0), |(axis, index)| (axis as i64, index));
        [batch, heads, rows, axis, index]
    }

    fn from_numbers([batch, heads, rows, fixed, index]: [i64; 5]) -> Option<HeadAxes> {
        let axis = |axis: i64| usize::try_from(axis).ok();
        let axes = [axis(batch)?, axis(heads)?, axis(rows)?];
        Some(HeadAxes { axes, fixed: axis(fixed).map(|fixed| (fixed, index)) })
    }

    /// Returns the sizes of batch, heads, rows and elements.
    fn sizes(&self, shape: &[Dim]) -> Option<[Dim; 4]> {
        let [batch, heads, rows] = self.axes;
        let size = |axis: usize| shape.get(axis).cloned();
        Some([size(batch)?, size(heads)?, size(rows)?, shape.last()?.clone()])
    }

    /// Returns the strides of batch, heads and rows, and the offset of the first element.
    fn strides(&self, shape: &[Dim]) -> ([Dim; 3], Dim) {
        let all = strides(shape);
        let start = self.fixed.map_or(Dim::from(0), |(axis, index)| &all[axis] * index);
        (self.axes.map(|axis| all[axis].clone()), start)
    }
}

/// `softmax(scale · Q · Kᵀ + mask) · V` with the result `[batch, queries, heads, size]`. Inputs are
/// Q, K, V and the mask.
pub struct StridedAttention {
    /// The layouts of Q, K and V.
    pub operands: [HeadAxes; 3],
    /// The scale of the scores.
    pub scale: f32,
}

impl StridedAttention {
    /// Returns the sizes of operands of these shapes, if the shapes fit together.
    fn sizes(&self, shapes: [&[Dim]; 3]) -> Option<Sizes> {
        let [q, k, v] = [0, 1, 2].map(|i| self.operands[i].sizes(shapes[i]));
        let ([batch, heads, queries, depth], [_, kv_heads, new, _], [.., width]) = (q?, k?, v?);
        let group = heads.floor_div(&kv_heads.at_least(&1.into()));
        let (heads, past) = ([heads, kv_heads], Dim::from(0));
        Some(Sizes { batch, heads, group, queries, past, new, depth, width })
    }
}

impl Op for StridedAttention {
    fn name(&self) -> &'static str {
        "StridedAttention"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        for (name, operand) in ["q_axes", "k_axes", "v_axes"].into_iter().zip(&self.operands) {
            a.ints(name, &operand.numbers());
        }
        a.float("scale", self.scale);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, &[DType::F32, DType::F64])?.dtype;
        let shapes = [cx.shape(0)?, cx.shape(1)?, cx.shape(2)?];
        let Some(Sizes { batch, heads: [heads, _], queries, width, .. }) = self.sizes(shapes)
        else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "an operand lacks an axis"));
        };
        Ok(vec![Type::tensor(dtype, [batch, queries, heads, width])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shapes = [&*cx.ty(0)?.shape, &*cx.ty(1)?.shape, &*cx.ty(2)?.shape];
        let sizes = self.sizes(shapes).expect("`infer` checked the axes");
        let [(q, q_start), (k, k_start), (v, v_start)] =
            [0, 1, 2].map(|i| self.operands[i].strides(shapes[i]));
        let attention = Attention { scale: Some(self.scale), ..Attention::default() };
        let mut geometry = attention.geometry(cx, &sizes, [k, v])?;
        let Sizes { heads: [heads, _], queries, width, .. } = &sizes;
        geometry.q = q;
        geometry.y = [heads * queries * width, width.clone(), heads * width];
        let dtype = cx.ty(0)?.dtype;
        let mut operands = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
        for (operand, start) in operands.iter_mut().zip([q_start, k_start, v_start]) {
            // An operand without elements has none before the start.
            let start = start.at_most(&operand.len);
            operand.len = &operand.len - &start;
            operand.start = &operand.start + &start;
        }
        let others = [cx.optional(3)?, None];
        let results = (cx.output(0)?, None);
        call_attention(cx, dtype, operands, others, results, geometry)
    }
}
