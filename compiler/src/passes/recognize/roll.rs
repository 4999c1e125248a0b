//! Recognizes a roll along an axis: two slices of a tensor that are concatenated in the other
//! order, as attention within shifted windows has them.

use crate::{
    ir::{Node, Site, ValueId},
    ops::{concat::Concat, roll::Roll, slice::sliced_range},
};
use std::rc::Rc;

/// Replaces `Concat(x[first..], x[..first])` by a `Roll`.
pub fn recognize_roll(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    let concat = node.op.downcast::<Concat>()?;
    let parts: [ValueId; 2] = node.inputs()?;
    let [end, start] = parts.map(|part| site.producer(part));
    let (end, start) = (end?, start?);
    let x = end.input(0).filter(|&x| start.input(0) == Some(x))?;
    let (axis, last) = sliced_range(site.graph, end)?;
    let (same_axis, first) = sliced_range(site.graph, start)?;
    let shape = &site.graph[x].ty.as_tensor()?.shape;
    let along = usize::try_from(concat.axis.checked_rem_euclid(shape.len() as i64)?).ok()?;
    let is_whole = first.start == 0 && first.end == last.start;
    let fits = [axis, same_axis] == [along; 2] && shape[axis].known() == Some(last.end);
    let roll = Roll { axis: concat.axis, first: last.start };
    (is_whole && fits).then(|| site.replace(node, Rc::new(roll), vec![Some(x)]))?
}
