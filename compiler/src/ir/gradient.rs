//! Gradients of operators, and the algebra in which they are written.
//!
//! An operator derives the gradients of its inputs from those of its outputs, as a formula over
//! other operators. Each family adds its functions to [`Expr`]: arithmetic is in `ops/binary.rs`,
//! reductions in `ops/reduce.rs`, and so on, so that a formula reads as on paper: `y * (dy - (y *
//! dy).sum(&[axis]))`.

use super::{Graph, NewNode, Node, NodeId, Op, RegionId, ValueId};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    limits::Limit,
    tensor::Tensor,
    ty::{TensorType, Type, axis_from_front},
};
use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
    rc::Rc,
};

/// The graph to whose end formulas are written.
pub struct Tape {
    graph: RefCell<Graph>,
    region: Cell<RegionId>,
    /// The name of the nodes that are written.
    label: RefCell<String>,
    /// The first error.
    diagnostic: RefCell<Option<Diagnostic>>,
}

/// A value to compute with.
#[derive(Clone, Copy)]
pub struct Expr<'t> {
    /// The value.
    pub id: ValueId,
    /// The tape that records formulas over the value.
    pub tape: &'t Tape,
}

/// The gradient of an operator with one input: `dx` from `x`, `y` and `dy`.
pub type Grad = for<'t> fn(x: Expr<'t>, y: Expr<'t>, dy: Expr<'t>) -> Expr<'t>;

impl Tape {
    /// Creates a tape that writes to the end of the body of `graph`.
    pub fn new(graph: Graph) -> Tape {
        let region = Cell::new(graph.body);
        let (label, diagnostic) = (RefCell::default(), RefCell::default());
        Tape { graph: RefCell::new(graph), region, label, diagnostic }
    }

    /// Returns the graph.
    ///
    /// # Errors
    ///
    /// Returns the first error of a formula.
    pub fn finish(self) -> Result<Graph> {
        match self.diagnostic.into_inner() {
            Some(diagnostic) => Err(diagnostic),
            None => Ok(self.graph.into_inner()),
        }
    }

    /// Calls `at` with the graph.
    pub fn look<T>(&self, at: impl FnOnce(&Graph) -> T) -> T {
        at(&self.graph.borrow())
    }

    /// Calls `by` with the graph for changes other than formulas.
    pub fn change<T>(&self, by: impl FnOnce(&mut Graph) -> T) -> T {
        by(&mut self.graph.borrow_mut())
    }

    /// Sets the name of the nodes that are written next.
    pub fn set_label(&self, label: String) {
        *self.label.borrow_mut() = label;
    }

    /// Writes to the end of `region` during `then`.
    pub fn within<T>(&self, region: RegionId, then: impl FnOnce() -> T) -> T {
        let outer = self.region.replace(region);
        let result = then();
        self.region.set(outer);
        result
    }

    /// Writes a region: `then` receives its inputs, of the given types, and returns its outputs.
    ///
    /// # Errors
    ///
    /// Returns the error of `then`.
    pub fn region<'t>(
        &'t self,
        name: &str,
        inputs: &[Type],
        then: impl FnOnce(RegionId, &[Expr<'t>]) -> Result<Vec<Expr<'t>>>,
    ) -> Result<RegionId> {
        let region = self.change(|graph| graph.region(name));
        let input = |ty: &Type| self.change(|graph| graph.input(region, "given", ty.clone()));
        let inputs: Vec<_> = inputs.iter().map(|ty| self.expr(input(ty))).collect();
        let outputs = self.within(region, || then(region, &inputs))?;
        let outputs = outputs.into_iter().map(|output| output.id).collect();
        self.change(|graph| graph.set_outputs(region, outputs));
        Ok(region)
    }

    /// Inlines a region with `arguments` as its inputs, and returns its outputs.
    pub fn inline<'t>(&'t self, region: RegionId, arguments: &[Expr<'t>]) -> Vec<Expr<'t>> {
        let (inputs, outputs) =
            self.look(|graph| (graph[region].inputs.clone(), graph[region].outputs.clone()));
        let mut to: HashMap<ValueId, ValueId> = HashMap::new();
        to.extend(inputs.into_iter().zip(arguments.iter().map(|argument| argument.id)));
        let into = self.region.get();
        let result = self.change(|graph| graph.copy_nodes(region, into, &mut to));
        if let Err(diagnostic) = result {
            self.diagnostic.borrow_mut().get_or_insert(diagnostic);
        }
        outputs.into_iter().map(|id| self.expr(to.get(&id).copied().unwrap_or(id))).collect()
    }

    /// Returns a value of the graph.
    pub fn expr(&self, id: ValueId) -> Expr<'_> {
        Expr { id, tape: self }
    }

    /// Writes a constant.
    pub fn constant(&self, tensor: Tensor) -> Expr<'_> {
        self.expr(self.change(|graph| graph.constant("constant", tensor)))
    }

    /// Writes a constant of integers with one axis.
    pub fn ints(&self, values: &[i64]) -> Expr<'_> {
        self.constant(Tensor::from_ints(values))
    }

    /// Writes a node and returns its first `outputs` outputs.
    pub fn node<'t>(
        &'t self,
        op: Rc<dyn Op>,
        inputs: &[Option<Expr<'t>>],
        outputs: usize,
    ) -> Vec<Expr<'t>> {
        self.node_around(op, inputs, outputs, Vec::new())
    }

    /// Writes a node with regions and returns its first `outputs` outputs.
    pub fn node_around<'t>(
        &'t self,
        op: Rc<dyn Op>,
        inputs: &[Option<Expr<'t>>],
        outputs: usize,
        regions: Vec<RegionId>,
    ) -> Vec<Expr<'t>> {
        let made = self.wanted_around(op, inputs, &vec![true; outputs], regions);
        made.into_iter().flatten().collect()
    }

    /// Writes a node and returns its wanted outputs.
    pub fn wanted<'t>(
        &'t self,
        op: impl Op,
        inputs: &[Expr<'t>],
        wanted: &[bool],
    ) -> Vec<Option<Expr<'t>>> {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.wanted_around(Rc::new(op), &inputs, wanted, Vec::new())
    }

    fn wanted_around<'t>(
        &'t self,
        op: Rc<dyn Op>,
        inputs: &[Option<Expr<'t>>],
        wanted: &[bool],
        regions: Vec<RegionId>,
    ) -> Vec<Option<Expr<'t>>> {
        let name = format!("{}/{}", self.label.borrow(), op.name());
        let inputs = inputs.iter().map(|input| input.map(|expr| expr.id)).collect();
        let one = wanted.len() == 1;
        let name_of = |(i, &wanted): (usize, &bool)| {
            wanted.then(|| if one { name.clone() } else { format!("{name}_{i}") })
        };
        let names: Vec<_> = wanted.iter().enumerate().map(name_of).collect();
        let new = NewNode { name: &name, op, inputs, outputs: &names, regions };
        let mut graph = self.graph.borrow_mut();
        let (id, result) = graph.node(self.region.get(), new);
        if let Err(diagnostic) = result {
            self.diagnostic.borrow_mut().get_or_insert(diagnostic);
        }
        graph[id].outputs.iter().map(|id| id.map(|id| Expr { id, tape: self })).collect()
    }
}

impl<'t> Expr<'t> {
    /// Writes `op` on this value and others, and returns its output.
    pub fn apply(self, op: impl Op, others: &[Expr<'t>]) -> Expr<'t> {
        let inputs: Vec<_> = [self].iter().chain(others).copied().map(Some).collect();
        self.tape.node(Rc::new(op), &inputs, 1)[0]
    }

    /// Returns the tensor type; that of a scalar after an error.
    pub fn ty(self) -> TensorType {
        let ty = self.tape.look(|graph| graph[self.id].ty.as_tensor().cloned());
        ty.unwrap_or_else(|| TensorType::new::<Dim>(DType::F32, []))
    }

    /// Returns the element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    /// Returns the sizes.
    pub fn dims(self) -> Vec<Dim> {
        self.ty().shape
    }

    /// Returns the rank.
    pub fn rank(self) -> usize {
        self.ty().rank()
    }

    /// Returns the elements, if they are known integers.
    pub fn known_ints(self) -> Option<Vec<i64>> {
        self.tape.look(|graph| graph[self.id].ints())
    }

    /// Writes a scalar of the same element type.
    pub fn number(self, value: f64) -> Expr<'t> {
        // Among integer types, gradients compute with `int64` only.
        let number = Tensor::from_number(self.dtype(), value);
        self.tape.constant(number.unwrap_or_else(|_| Tensor::from_int(value as i64)))
    }
}

/// Propagates the gradients of the seeds backwards through nodes to some values.
pub type Backwards = for<'t> fn(
    tape: &'t Tape,
    nodes: &[NodeId],
    seeds: &[(Expr<'t>, Expr<'t>)],
    xs: &[ValueId],
) -> Result<Vec<Option<Expr<'t>>>>;

/// A node whose gradient is requested.
pub struct Gradient<'t> {
    tape: &'t Tape,
    node: Node,
    backwards: Backwards,
    /// The number of nodes of the region before.
    start: usize,
    /// The inputs whose gradient is wanted.
    live: HashSet<ValueId>,
    /// The gradients of values that regions of the node capture.
    d_captures: Vec<(ValueId, Expr<'t>)>,
    /// The gradients of the outputs; `None` is zero.
    d_outputs: Vec<Option<Expr<'t>>>,
    /// The gradients of the inputs that are set.
    d_inputs: Vec<Option<Expr<'t>>>,
}

impl<'t> Gradient<'t> {
    /// Creates a request for the gradients of the `live` values that `node` uses.
    pub fn new(
        tape: &'t Tape,
        node: NodeId,
        live: &HashSet<ValueId>,
        d_outputs: Vec<Option<Expr<'t>>>,
        backwards: Backwards,
    ) -> Gradient<'t> {
        let (node, used, start) = tape.look(|graph| {
            let start = graph[tape.region.get()].nodes.len();
            (graph[node].clone(), graph.used_by(node), start)
        });
        let live = used.into_iter().filter(|id| live.contains(id)).collect();
        let d_inputs = vec![None; node.inputs.len()];
        let d_captures = Vec::new();
        Gradient { tape, node, backwards, start, live, d_captures, d_outputs, d_inputs }
    }

    /// Returns the gradients that the operator sets, one per value.
    ///
    /// # Errors
    ///
    /// Returns an error, located at the node, if the operator has no gradient.
    pub fn ask(mut self) -> Result<Vec<(ValueId, Expr<'t>)>> {
        let node = self.node.clone();
        node.op.gradient(&mut self).map_err(|diagnostic| diagnostic.within(node.location()))?;
        let inputs = node.inputs.iter().zip(self.d_inputs);
        let inputs = inputs.filter_map(|(input, dx)| Some(((*input)?, dx?)));
        Ok(inputs.chain(self.d_captures).collect())
    }

    /// Sets all gradients by differentiating formulas for the outputs: the nodes written since the
    /// request are walked backwards.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the nodes has no gradient.
    pub fn through(&mut self, outputs: &[Expr<'t>]) -> Result {
        let nodes =
            self.tape.look(|graph| graph[self.tape.region.get()].nodes[self.start..].to_vec());
        let seeds = outputs.iter().zip(&self.d_outputs);
        let seeds: Vec<_> = seeds.filter_map(|(&y, dy)| Some((y, (*dy)?))).collect();
        let wanted = (0..self.inputs()).filter(|&i| self.wants(i));
        let wanted = wanted.map(|i| self.x(i).id);
        let mut xs: Vec<ValueId> = wanted.chain(self.captures()).collect();
        xs.sort_unstable();
        xs.dedup();
        for (x, dx) in xs.iter().zip((self.backwards)(self.tape, &nodes, &seeds, &xs)?) {
            if let Some(dx) = dx {
                self.set_capture(*x, dx);
            }
        }
        Ok(())
    }

    /// Returns the captured values of the node's regions whose gradient is wanted.
    pub fn captures(&self) -> Vec<ValueId> {
        let mut captures: Vec<ValueId> = self.tape.look(|graph| {
            self.node.regions.iter().flat_map(|&region| graph.captures(region)).collect()
        });
        captures.retain(|id| self.live.contains(id));
        captures.sort_unstable();
        captures.dedup();
        captures
    }

    /// Sets the gradient of a captured value.
    pub fn set_capture(&mut self, value: ValueId, dx: Expr<'t>) {
        self.d_captures.push((value, dx));
    }

    /// Returns the gradients by `xs` of values that a region computes, from their own gradients.
    ///
    /// # Errors
    ///
    /// Returns an error if a node of the region has no gradient.
    pub fn within_region(
        &self,
        region: RegionId,
        seeds: &[(Expr<'t>, Expr<'t>)],
        xs: &[ValueId],
    ) -> Result<Vec<Option<Expr<'t>>>> {
        let nodes = self.tape.look(|graph| graph[region].nodes.clone());
        (self.backwards)(self.tape, &nodes, seeds, xs)
    }

    /// Returns the tape.
    pub fn tape(&self) -> &'t Tape {
        self.tape
    }

    /// Takes `count` of a limit for `what`, the plural of what is made.
    ///
    /// # Errors
    ///
    /// Returns an error if less is left.
    pub fn spend(&self, limit: Limit, count: usize, what: &str) -> Result {
        self.tape.graph.borrow().budget.spend(limit, count, what)
    }

    /// Returns the node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Returns the number of inputs, omitted ones before the last included, as [`Infer`] does.
    ///
    /// [`Infer`]: super::Infer
    pub fn inputs(&self) -> usize {
        self.node.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
    }

    /// Returns whether input `i` is present.
    pub fn has(&self, i: usize) -> bool {
        self.node.input(i).is_some()
    }

    /// Returns input `i`, if it is present.
    pub fn optional(&self, i: usize) -> Option<Expr<'t>> {
        self.node.input(i).map(|id| self.tape.expr(id))
    }

    /// Returns input `i`, which the operator requires.
    pub fn x(&self, i: usize) -> Expr<'t> {
        self.optional(i).expect("inferring the types saw the input")
    }

    /// Returns output `i`; the node is recomputed if the output was unused.
    pub fn y(&self, i: usize) -> Expr<'t> {
        match self.node.output(i) {
            Some(id) => self.tape.expr(id),
            None => self.again(i + 1)[i],
        }
    }

    /// Recomputes the node and returns its first `outputs` outputs.
    pub fn again(&self, outputs: usize) -> Vec<Expr<'t>> {
        let inputs: Vec<_> = (0..self.inputs()).map(|i| self.optional(i)).collect();
        self.tape.node(self.node.op.clone(), &inputs, outputs)
    }

    /// Returns the gradient of output `i`, unless it is zero.
    pub fn dy(&self, i: usize) -> Option<Expr<'t>> {
        self.d_outputs.get(i).copied().flatten()
    }

    /// Returns whether the gradient of input `i` is wanted.
    pub fn wants(&self, i: usize) -> bool {
        self.node.input(i).is_some_and(|id| self.live.contains(&id))
    }

    /// Sets the gradient of input `i`. A gradient of a broadcast shape is summed over the broadcast
    /// axes, and one with fewer elements than the input is broadcast.
    pub fn set(&mut self, i: usize, dx: Expr<'t>) {
        self.d_inputs[i] = Some(dx);
    }

    /// Sets the gradients of the wanted inputs that have none yet to zero: the outputs in use do
    /// not depend on them.
    pub fn set_others_to_zero(&mut self) {
        for i in 0..self.d_inputs.len() {
            if self.d_inputs[i].is_none() && self.wants(i) {
                self.set(i, self.x(i).zeros_like());
            }
        }
    }

    /// Returns the elements of input `i`, if they are known integers.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.optional(i)?.known_ints()
    }

    /// Returns the axis counted from the front; inference has checked that it is one of `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> usize {
        axis_from_front(axis, rank)
    }

    /// Returns the error that the operator has no gradient, with the unsupported case.
    pub fn unsupported(&self, what: &str) -> Diagnostic {
        no_gradient(&*self.node.op, &format!(" {what} yet"))
    }
}

/// Returns the error that an operator has no gradient.
pub(super) fn no_gradient(op: &dyn Op, what: &str) -> Diagnostic {
    Diagnostic::new(Code::NoGradient, format!("`{}` has no gradient{what}", op.name()))
}

/// Returns whether a value of a type can have a gradient.
pub fn is_differentiable(ty: &Type) -> bool {
    ty.dtype().is_some_and(DType::is_float)
}
