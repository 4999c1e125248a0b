//! The size expressions of a step.

use super::{Arg, Block, Cond, Operand, Step, TripCount, step};
use crate::dim::Dim;

impl Step {
    /// Calls `see` with every size of the step itself, without those of the steps inside of it.
    pub fn sizes(&self, see: &mut dyn FnMut(&Dim)) {
        let place = |operand: &Operand, see: &mut dyn FnMut(&Dim)| {
            see(&operand.start);
            see(&operand.len);
        };
        match self {
            Step::Call(call) => {
                call.params.visit(see);
                let operands = call.inputs.iter().chain(&call.outputs).filter_map(Arg::operand);
                operands.for_each(|operand| place(operand, see));
            }
            Step::Check(check) => check.condition.sizes().into_iter().for_each(see),
            Step::If(step) => {
                match &step.cond {
                    Cond::Size(size) => see(size),
                    Cond::Tensor(operand) => place(operand, see),
                }
                step.outputs.iter().for_each(|operand| place(operand, see));
                step.branches.iter().for_each(|block| block.own_sizes(see));
            }
            Step::Loop(step) => {
                if let Some(TripCount::Size(most)) = &step.most {
                    see(most);
                }
                step.stacked.iter().filter_map(|stacked| stacked.at.as_ref()).for_each(&mut *see);
                step.sizes
                    .iter()
                    .flat_map(|size| [&size.at_first, &size.after])
                    .for_each(&mut *see);
                step.common.iter().for_each(|common| see(&common.size));
                step::loop_operands(step).for_each(|operand| place(operand, see));
                step.body.own_sizes(see);
            }
        }
    }
}

impl Block {
    /// Calls `see` with the sizes of the block, without those of its steps.
    fn own_sizes(&self, see: &mut dyn FnMut(&Dim)) {
        self.sizes.iter().for_each(&mut *see);
        self.results.iter().flat_map(|operand| [&operand.start, &operand.len]).for_each(see);
    }
}
