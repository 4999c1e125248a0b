//! The nodes that an observer of a run sees.

use crate::plan::{Plan, Step};
use proc_macro2::Ident;
use quote::format_ident;
use std::collections::HashMap;

/// A node that an observer of a run sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedNode {
    /// The nodes as a step of the plan names them.
    pub comment: String,
    /// The multiply-adds of one execution, or 0 if they depend on sizes of the run.
    pub macs: u64,
}

/// Returns the nodes that an observer of a run of `plan` sees, in the order of the table `NODES` of
/// its module.
pub fn nodes(plan: &Plan) -> Vec<ObservedNode> {
    let mut nodes = Nodes::default();
    nodes.add(&plan.steps);
    nodes.all
}

/// The nodes of a plan.
#[derive(Default)]
pub struct Nodes {
    /// The nodes, in order.
    pub all: Vec<ObservedNode>,
    /// The index of each, by its comment.
    pub numbers: HashMap<String, usize>,
}

impl Nodes {
    /// Adds the nodes of these steps. Those inside of a branch or a loop come before it.
    fn add(&mut self, steps: &[Step]) {
        for step in steps {
            step.blocks().iter().for_each(|block| self.add(&block.steps));
            let Some(comment) = comment(step) else { continue };
            let macs = if let Step::Call(call) = step { call.macs } else { 0 };
            let number = *self.numbers.entry(comment.to_owned()).or_insert(self.all.len());
            if number == self.all.len() {
                self.all.push(ObservedNode { comment: comment.to_owned(), macs: 0 });
            }
            let node = &mut self.all[number];
            node.macs = node.macs.max(macs);
        }
    }
}

/// The text by which a step names its nodes.
pub fn comment(step: &Step) -> Option<&str> {
    match step {
        Step::Call(call) => Some(&call.node),
        Step::If(step) => Some(&step.node),
        Step::Loop(step) => Some(&step.node),
        Step::Check(_) => None,
    }
}

impl ObservedNode {
    /// The name and the operator of the node. A step that is for no node copies a value.
    pub fn name(&self) -> (&str, &str) {
        let (node, _) = self.comment.rsplit_once(" -> ").unwrap_or((&self.comment, ""));
        node.rsplit_once(": ").unwrap_or((node, "copy"))
    }
}

/// The observer of a method.
pub struct Observer {
    /// The parameter.
    pub name: Ident,
    /// The nodes.
    pub nodes: Nodes,
}

impl Observer {
    /// The observer of the method that runs `plan`.
    pub fn new(plan: &Plan, name: &str) -> Observer {
        let mut nodes = Nodes::default();
        nodes.add(&plan.steps);
        Observer { name: format_ident!("{name}"), nodes }
    }
}

/// A public method with an observer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// `infer_with`, which shows values to a closure.
    Values,
    /// `infer_profiled`, which tells an observer when nodes end.
    Times,
}
