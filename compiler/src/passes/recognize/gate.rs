//! Recognizes `Gate`, the gradient of `Relu`.

use crate::{
    dtype::FLOATS,
    ir::{Node, Site, ValueId},
    ops::{
        compare::{Compare, GREATER, Where},
        gate::Gate,
    },
    passes::fuse::Replaced,
};
use std::rc::Rc;

/// Recognizes `Where(Greater(y, 0), x, 0)`, all of one shape.
pub fn recognize_gate(site: &mut Site<'_>, node: &Node) -> Replaced {
    node.op.downcast::<Where>()?;
    let (x, condition) = (node.input(1)?, site.producer(node.input(0)?)?);
    let greater = condition.op.downcast::<&'static Compare>()?;
    let (y, bound) = (condition.input(0)?, condition.input(1)?);
    let is_zero = |value: ValueId| {
        let is_scalar = site.graph[value].ty.as_tensor().is_some_and(|ty| ty.rank() == 0);
        is_scalar && super::matching::number(site.graph, value) == Some(0.0)
    };
    let [of_x, of_y] = [x, y].map(|value| site.graph[value].ty.as_tensor());
    let same = of_x == of_y && of_x.is_some_and(|ty| FLOATS.contains(&ty.dtype));
    if !std::ptr::eq(*greater, &GREATER) || !is_zero(bound) || !is_zero(node.input(2)?) || !same {
        return None;
    }
    site.replace(node, Rc::new(Gate), vec![Some(x), Some(y)])
}
