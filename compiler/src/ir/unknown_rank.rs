//! The error for a value whose number of axes only a run determines.

use super::{Graph, ValueId};
use crate::{
    diag::{Code, Diagnostic, quoted},
    ty::Type,
};

impl Graph {
    /// Returns the error for a value of unknown rank. It names the declaration that settles the
    /// rank.
    pub(super) fn unknown_rank(&self, id: ValueId) -> Diagnostic {
        let message = format!(
            "how many axes {} has is known only when the model runs",
            quoted(&self[id].name)
        );
        let mut diagnostic = Diagnostic::new(Code::UnknownShape, message);
        let origin = self.rank_origin(id);
        let name = &self[origin].name;
        let Some(node) = self.producer(origin) else {
            return diagnostic.help(format!("declare its axes: `--shape {name}=SIZE,…`"));
        };
        if origin != id {
            let (name, node) = (quoted(name), node.location());
            diagnostic = diagnostic.note(format!("it follows from {name}, the output of {node}"));
        }
        let output = &self[id].name;
        // A `Squeeze` whose sizes decide which axes it removes has become a branch, too.
        let is_branch = node.op.label() == node.op.name();
        diagnostic.help(if !node.regions.is_empty() {
            let (cause, decides) = match is_branch {
                true => ("the branches differ in their number of axes", "what decides the branch"),
                false => ("the sizes decide how many axes are removed", "those that may be 1"),
            };
            format!(
                "{cause}: declare the axes of the output, as in `--shape {output}=SIZE,…`, so \
                 that another number of axes is an error of the run, or fix {decides}: \
                 `--dim NAME=N` or `--const NAME=VALUE`"
            )
        } else if node.op.count_for_rank(1, 0).or(node.op.count_for_rank(0, 1)).is_some() {
            // The sizes decide for a `Squeeze` without a list.
            let decides = match node.input(1) {
                None if node.input(0).is_some() && node.op.count_for_rank(1, 0).is_none() => {
                    "the sizes that may be 1"
                }
                _ => "the length of the list that determines them",
            };
            format!(
                "declare its axes, as in `--shape {name}=SIZE,…`, or fix {decides}: `--dim NAME=N`"
            )
        } else {
            "fix the sizes or inputs that determine it: `--dim NAME=N` or `--const NAME=VALUE`"
                .into()
        })
    }

    /// Returns the first value of unknown rank among those that a value is computed from.
    fn rank_origin(&self, id: ValueId) -> ValueId {
        let is_open = |&id: &ValueId| matches!(self[id].ty, Type::Unknown | Type::Unranked(_));
        let before = |&id: &ValueId| {
            let node = self.producer(id)?;
            node.inputs.iter().flatten().copied().find(is_open)
        };
        std::iter::successors(Some(id), before).last().unwrap_or(id)
    }
}
