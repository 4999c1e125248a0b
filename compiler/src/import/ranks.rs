//! Declared numbers of axes, for values whose operators leave the number open.
//!
//! A declaration says how many elements a shape or a list of axes has, and which axes `Squeeze`
//! removes. The module checks what a declaration promises.

use super::context::{GraphBuilder, Ranks, Scope};
use crate::{
    dim::Dim,
    ir::{Op, ValueId},
    ops::{reshape::Squeeze, sizes::Assume},
    tensor::Tensor,
    ty::{TensorType, Type},
};
use onnxc_proto::{GraphProto, NodeProto, ValueInfoProto, type_proto::Value};
use std::rc::Rc;

impl GraphBuilder<'_> {
    /// Returns the ranks that the model or the user declares for the values of a graph.
    pub(super) fn declared_ranks(&self, proto: &GraphProto) -> Rc<Ranks> {
        let declared = proto.value_info.iter().chain(&proto.output);
        let declared = declared.filter_map(|info| Some((info.name().to_owned(), rank(info)?)));
        let given = self.settings.shapes.iter();
        let given = given.map(|(name, axes)| (name.clone(), axes.len()));
        Rc::new(declared.chain(given).collect())
    }

    /// Applies the declared rank of a node's first output to the node's inputs.
    pub(super) fn settle_rank(
        &mut self,
        op: &dyn Op,
        node: &NodeProto,
        inputs: &mut Vec<Option<ValueId>>,
        scope: &Scope<'_>,
    ) {
        let Some(output) = node.output.first() else { return };
        let Some(&rank) = scope.ranks.get(output) else { return };
        let input = |i: usize| inputs.get(i).copied().flatten();
        let data = input(0).and_then(|id| self.graph[id].ty.as_tensor());
        if op.is::<Squeeze>() && input(1).is_none() {
            // Without the user's word, both cases of a size that may be 1 are compiled.
            let is_given = self.settings.shapes.contains_key(output);
            let axes = data.filter(|_| is_given).and_then(|ty| squeezed_axes(ty, rank));
            if let (Some(data), Some(axes)) = (input(0), axes)
                && let Some(settled) = self.squeeze(data, &axes, scope)
            {
                *inputs = settled;
                self.use_shape(output);
            }
            return;
        }
        let count = op.count_for_rank(rank, data.map_or(0, TensorType::rank));
        let Some((i, count)) = count else { return };
        let settled = input(i).and_then(|id| self.with_count(id, count, scope));
        if let (Some(settled), Some(input)) = (settled, inputs.get_mut(i)) {
            *input = Some(settled);
            self.use_shape(output);
        }
    }

    /// Returns a list of unknown length as one of `count` elements.
    fn with_count(&mut self, list: ValueId, count: usize, scope: &Scope<'_>) -> Option<ValueId> {
        let Type::Tensor(ty) = &self.graph[list].ty else { return None };
        let [len] = ty.shape.as_slice() else { return None };
        if len.known().is_some() {
            return None;
        }
        let equal = vec![(len.clone(), count.into())];
        let op = Assume { ty: Type::tensor(ty.dtype, [count]), known: None, equal };
        let name = self.graph[list].name.clone();
        self.graph.add(scope.region, &name, op, &[list]).ok()
    }

    /// Returns the inputs of a `Squeeze` that removes these axes.
    fn squeeze(
        &mut self,
        data: ValueId,
        axes: &SqueezedAxes,
        scope: &Scope<'_>,
    ) -> Option<Vec<Option<ValueId>>> {
        let value = &self.graph[data];
        let (ty, known, name) = (value.ty.clone(), value.known.clone(), value.name.clone());
        let equal = axes.kept.iter().map(|size| (size.equal(&1.into()), 0.into())).collect();
        let op = Assume { ty, known, equal };
        let data = self.graph.add(scope.region, &name, op, &[data]).ok()?;
        let axes = self.graph.constant("axes", Tensor::from_ints(&axes.squeezed));
        Some(vec![Some(data), Some(axes)])
    }
}

/// The rank that the file declares for a tensor.
fn rank(info: &ValueInfoProto) -> Option<usize> {
    match info.r#type.as_ref()?.value.as_ref()? {
        Value::TensorType(ty) => Some(ty.shape.as_ref()?.dim.len()),
        _ => None,
    }
}

/// The axes that a `Squeeze` without `axes` removes.
struct SqueezedAxes {
    squeezed: Vec<i64>,
    /// The sizes of other axes, which must not be 1.
    kept: Vec<Dim>,
}

/// Returns the axes to squeeze for a result of `rank` axes, if only one choice of them exists.
fn squeezed_axes(ty: &TensorType, rank: usize) -> Option<SqueezedAxes> {
    let is_one = |axis: &usize| ty.shape[*axis].known() == Some(1);
    let is_open = |axis: &usize| Squeeze::is_open(&ty.shape[*axis]);
    let ones: Vec<usize> = (0..ty.rank()).filter(is_one).collect();
    let open: Vec<usize> = (0..ty.rank()).filter(is_open).collect();
    let (squeezed, kept) = match rank {
        _ if rank + ones.len() == ty.rank() => (ones, open),
        _ if rank + ones.len() + open.len() == ty.rank() => ([ones, open].concat(), Vec::new()),
        _ => return None,
    };
    let squeezed = squeezed.into_iter().map(|axis| i64::try_from(axis).unwrap_or(i64::MAX));
    let kept = kept.into_iter().map(|axis| ty.shape[axis].clone());
    Some(SqueezedAxes { squeezed: squeezed.collect(), kept: kept.collect() })
}
