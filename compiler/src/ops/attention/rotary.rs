//! `RotaryEmbedding`: rotates pairs of elements by angles that encode the position of a row.

use super::strides;
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op},
    ops::{Entry, entry},
    plan::{
        Kernel,
        geometry::{self, Rotary},
        kernel,
    },
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("RotaryEmbedding", 23, |node| {
    Ok(Rc::new(RotaryEmbedding {
        interleaved: node.flag("interleaved", false)?,
        num_heads: node.maybe_int("num_heads")?,
        rotary_embedding_dim: node.int("rotary_embedding_dim", 0)?,
    }))
})];

/// Rotates pairs of elements of each head.
#[derive(Clone)]
pub struct RotaryEmbedding {
    /// Whether the elements of a pair are adjacent, not half a head apart.
    pub interleaved: bool,
    /// The number of heads of a row, for inputs of three axes.
    pub num_heads: Option<i64>,
    /// The number of elements of a head that are rotated; 0 for all.
    pub rotary_embedding_dim: i64,
}

macro_rules! rotary {
    ($kernel:ident $in_place:ident) => {
        kernel!(checked FLOATS T, attention::$kernel::<T>,
            |f, a, p| f(a.input(0), a.input(1), a.input(2), a.optional(3), a.output(0), p),
            in_place $in_place::<T>
            |f, a, p| f(a.output(0), a.input(0), a.input(1), a.optional(2), p))
    };
}

static HALVES: Kernel<Rotary> = rotary!(rotary_embedding rotary_embedding_in_place);
static INTERLEAVED: Kernel<Rotary> =
    rotary!(rotary_embedding_interleaved rotary_embedding_interleaved_in_place);

/// The sizes of the input.
struct Sizes {
    batch: Dim,
    heads: Dim,
    /// The length of a sequence.
    len: Dim,
    /// The number of elements of a head.
    size: Dim,
    /// The number of elements of a head that are rotated.
    rotated: Dim,
}

impl RotaryEmbedding {
    /// The sizes of an input of shape `x`, which has three or four axes.
    fn sizes(&self, x: &[Dim]) -> Sizes {
        let (heads, len, size) = match x {
            [_, heads, len, size] => (heads.clone(), len.clone(), size.clone()),
            _ => {
                let heads = Dim::from(self.num_heads.unwrap_or(1).max(1));
                let size = x[2].floor_div(&heads);
                (heads, x[1].clone(), size)
            }
        };
        let rotated = match self.rotary_embedding_dim {
            0 => size.clone(),
            some => some.into(),
        };
        Sizes { batch: x[0].clone(), heads, len, size, rotated }
    }

    /// Checks the shapes of cosines, sines and `position_ids`, which must broadcast to all rows.
    fn check_angles(cx: &mut Infer<'_>, sizes: &Sizes, pairs: &Dim) -> Inferred<()> {
        let rows = [sizes.batch.clone(), sizes.len.clone()];
        let (i, own) = match cx.has(3) {
            true => {
                cx.of(3, &[DType::I64])?;
                cx.ranked(1, 2)?;
                (3, cx.ranked(3, 2)?.shape.clone())
            }
            false => (1, cx.ranked(1, 3)?.shape[..2].to_vec()),
        };
        let broadcast = cx.broadcast(&[&rows, &own])?;
        for (a, b) in rows.iter().zip(&broadcast) {
            cx.require_equal(a, b, &format!("the number of rows and an axis of input {i}"))?;
        }
        let cos = cx.shape(1)?.to_vec();
        let sin = cx.ranked(2, cos.len())?.shape.clone();
        for (a, b) in cos.iter().zip(&sin) {
            cx.require_equal(a, b, "the sizes of cosines and of sines")?;
        }
        cx.require_inside_axis(cx.ints(3).unwrap_or_default(), 1, 0)?;
        cx.require_equal(
            &cos[cos.len() - 1],
            pairs,
            "the number of angles of a row and of its pairs",
        )
    }
}

impl Op for RotaryEmbedding {
    fn name(&self) -> &'static str {
        "RotaryEmbedding"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("interleaved", self.interleaved);
        self.num_heads.into_iter().for_each(|heads| a.int("num_heads", heads));
        a.int("rotary_embedding_dim", self.rotary_embedding_dim);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        cx.same_dtype(0, 1)?;
        cx.same_dtype(0, 2)?;
        if ![3, 4].contains(&ty.rank()) {
            let message = "the input must have three or four axes";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        if ty.rank() == 3 && self.num_heads.is_none_or(|heads| heads < 1) {
            let message = "an input of three axes needs `num_heads`";
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        let sizes = self.sizes(&ty.shape);
        let pairs = sizes.rotated.floor_div(&2.into());
        cx.require_equal(
            &sizes.rotated,
            &(&pairs * 2),
            "the number of rotated elements and an even number",
        )?;
        let message = "a head has fewer elements than `rotary_embedding_dim`";
        cx.require_at_least(&sizes.size, &sizes.rotated, message)?;
        if ty.rank() == 3 {
            let all = &sizes.size * &sizes.heads;
            cx.require_equal(&ty.shape[2], &all, "the size of a row and of all its heads")?;
        }
        Self::check_angles(cx, &sizes, &pairs)?;
        Ok(vec![ty.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let Sizes { batch, heads, len, size, rotated } = self.sizes(&ty.shape);
        let cos = &cx.ty(1)?.shape;
        let rows = [batch.clone(), len.clone()];
        let (places, angles) = match cx.has(3) {
            true => (geometry::broadcast_strides(&cx.ty(3)?.shape, &rows), cos[0].clone()),
            false => {
                let all = [&rows[..], &cos[2..]].concat();
                (geometry::broadcast_strides(cos, &all), 0.into())
            }
        };
        let geometry = Rotary {
            x: strides(ty.rank(), &heads, &len, &size),
            batch,
            heads,
            len,
            size,
            pairs: rotated.floor_div(&2.into()),
            places: [places[0].clone(), places[1].clone()],
            angles,
        };
        let kernel = if self.interleaved { &INTERLEAVED } else { &HALVES };
        let inputs = vec![
            cx.input(0)?.into(),
            cx.input(1)?.into(),
            cx.input(2)?.into(),
            cx.optional(3)?.into(),
        ];
        let outputs = vec![cx.output(0)?.into()];
        cx.call_on(kernel, ty.dtype, inputs, outputs, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.set_gradients(g)
    }
}
