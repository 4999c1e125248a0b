//! Integer forms of `Add`, `Mul` and `AveragePool`.

use super::{
    Replaced,
    operand::{Operand, Target},
};
use crate::{
    ir::{Node, Site, ValueId},
    ops::{
        binary::{ADD, MUL},
        pool::{AveragePool, GlobalPool},
        quantized::{
            binary::{Form, QuantizedBinary, Repeated},
            pool::QuantizedAveragePool,
        },
        reshape::Flatten,
    },
    passes::{fuse::is, recognize::mean_of_pixels},
};
use onnxc_runtime::kernels::quantized::Blend;
use std::rc::Rc;

/// Replaces an `Add` or `Mul` of two dequantized tensors.
pub fn quantize_binary(
    site: &mut Site<'_>,
    node: &Node,
    target: &Target,
    value: ValueId,
) -> Replaced {
    let producer = site.producer(value)?;
    let forms = [(&ADD, Form::Add), (&MUL, Form::Mul)];
    let (_, form) = forms.into_iter().find(|(row, _)| is(producer, row))?;
    let (mut a, mut b) =
        (Operand::bytes(site, producer.input(0)?)?, Operand::bytes(site, producer.input(1)?)?);
    let result = &site.graph[value].ty.as_tensor()?.shape;
    let shape = |operand: &Operand| Some(site.graph[operand.x].ty.as_tensor()?.shape.clone());
    if shape(&a)? != *result {
        (a, b) = (b, a);
    }
    let one = shape(&b)?.iter().all(|size| size.known() == Some(1));
    if shape(&a)? != *result || !one && Repeated::of(result, &shape(&b)?).is_none() {
        return None;
    }
    let of = Blend {
        zeros: [a.zero(), b.zero()],
        scales: [a.scale(), b.scale()],
        scale: target.scale,
        one: false,
        factors: None,
    };
    let op = QuantizedBinary { form, of, to: target.requantized(0) };
    site.replace(node, Rc::new(op), vec![Some(a.x), Some(b.x)])
}

/// Replaces an `AveragePool`, a `GlobalAveragePool` or a mean over all pixels of a dequantized
/// tensor.
pub fn quantize_average(
    site: &mut Site<'_>,
    node: &Node,
    target: &Target,
    value: ValueId,
) -> Replaced {
    let producer = site.producer(value)?;
    let x = Operand::bytes(site, producer.input(0)?)?;
    let mean = mean_of_pixels(site, producer);
    let (pool, padded) = match producer.op.downcast::<AveragePool>() {
        Some(average) => (Some(average.pool.clone()), average.count_include_pad),
        None => {
            let global = matches!(producer.op.downcast::<GlobalPool>(), Some(GlobalPool::Average));
            (global || mean.is_some()).then_some((None, false))?
        }
    };
    let keeps_rank = mean.is_none_or(|mean| mean.keepdims);
    let factor = (f64::from(x.scale()) / f64::from(target.scale)) as f32;
    if !factor.is_finite() {
        return None;
    }
    let op = QuantizedAveragePool { pool, padded, factor, to: target.requantized(x.zero()) };
    if keeps_rank {
        return site.replace(node, Rc::new(op), vec![Some(x.x)]);
    }
    let pooled = site.before(node, Rc::new(op), vec![Some(x.x)])?;
    site.replace(node, Rc::new(Flatten { axis: 1 }), vec![Some(pooled)])
}
