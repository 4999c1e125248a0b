//! The differences between a graph and its copy, by the ids of the graph that is read.

use super::{Node, NodeId, Outputs, RegionId, Site, ValueId};
use crate::diag::Result;

/// The differences that the copy of a graph has. By default it has none.
pub(super) trait Changes {
    /// Returns the values that replace the outputs of a node, whose inputs are values of the copy.
    fn replace(&self, _site: &mut Site<'_>, _id: NodeId, _node: &Node) -> Option<Outputs> {
        None
    }

    /// Returns the value that uses of `value` refer to instead.
    fn source(&self, value: ValueId) -> ValueId {
        value
    }

    /// The values that uses of other values refer to.
    fn sources(&self) -> Vec<ValueId> {
        Vec::new()
    }

    /// Adds nodes after `value`, which is `new` in the copy, and returns what its uses refer to.
    fn wrap(
        &self,
        _site: &mut Site<'_>,
        _value: ValueId,
        _new: ValueId,
    ) -> Option<Result<ValueId>> {
        None
    }

    /// The order of the nodes of a region.
    fn nodes(&self, _region: RegionId) -> Option<&[NodeId]> {
        None
    }

    /// The outputs of a region.
    fn outputs(&self, _region: RegionId) -> Option<&[ValueId]> {
        None
    }

    /// The name of a value.
    fn name(&self, _value: ValueId) -> Option<&str> {
        None
    }
}

/// A copy without differences.
pub(super) struct Unchanged;

impl Changes for Unchanged {}
