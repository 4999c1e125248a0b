//! Derivatives: what an operator is asked for its own, and the algebra that it answers in.
//!
//! An operator says how the derivatives of its inputs follow from those of its outputs, as a formula
//! over other operators. Each family adds its own words to [`Expr`]: sums stand in `ops/binary.rs`,
//! reductions in `ops/reduce.rs`, and so on, so that a formula reads as it does on paper:
//! `y * (dy - (y * dy).sum(&[axis]))`.

use super::{Graph, NewNode, Node, NodeId, Op, RegionId, ValueId};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    tensor::Tensor,
    ty::{TensorType, Type, axis_from_front},
};
use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, HashSet},
    rc::Rc,
};

/// The graph at whose end formulas are written.
pub struct Tape {
    graph: RefCell<Graph>,
    region: Cell<RegionId>,
    /// What the nodes that are written are for.
    label: RefCell<String>,
    /// The first node that did not fit.
    diagnostic: RefCell<Option<Diagnostic>>,
}

/// A value to calculate with.
#[derive(Clone, Copy)]
pub struct Expr<'t> {
    /// The value.
    pub id: ValueId,
    /// Where what is made of it is written.
    pub tape: &'t Tape,
}

/// The formulas of an operator with one input: what `dx` is for `x`, `y` and `dy`.
pub type Grad = for<'t> fn(x: Expr<'t>, y: Expr<'t>, dy: Expr<'t>) -> Expr<'t>;

impl Tape {
    /// A tape that writes to the end of the body of `graph`.
    pub fn new(graph: Graph) -> Tape {
        let region = Cell::new(graph.body);
        let (label, diagnostic) = (RefCell::default(), RefCell::default());
        Tape { graph: RefCell::new(graph), region, label, diagnostic }
    }

    /// The graph with all that was written; a diagnostic where some of it did not fit.
    pub fn finish(self) -> Result<Graph> {
        match self.diagnostic.into_inner() {
            Some(diagnostic) => Err(diagnostic),
            None => Ok(self.graph.into_inner()),
        }
    }

    /// Looks at the graph.
    pub fn look<T>(&self, at: impl FnOnce(&Graph) -> T) -> T {
        at(&self.graph.borrow())
    }

    /// Changes the graph, without writing a formula.
    pub fn change<T>(&self, by: impl FnOnce(&mut Graph) -> T) -> T {
        by(&mut self.graph.borrow_mut())
    }

    /// Says what the nodes written from here on are for.
    pub fn set_label(&self, label: String) {
        *self.label.borrow_mut() = label;
    }

    /// Writes to the end of `region` while `then` runs.
    pub fn within<T>(&self, region: RegionId, then: impl FnOnce() -> T) -> T {
        let outer = self.region.replace(region);
        let result = then();
        self.region.set(outer);
        result
    }

    /// Writes a region: `then` is given its inputs, of those types, and says what it gives.
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

    /// Writes what a region does, with `arguments` for its inputs, and gives what it gives.
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

    /// A value of the graph.
    pub fn expr(&self, id: ValueId) -> Expr<'_> {
        Expr { id, tape: self }
    }

    /// A constant.
    pub fn constant(&self, tensor: Tensor) -> Expr<'_> {
        self.expr(self.change(|graph| graph.constant("constant", tensor)))
    }

    /// Whole numbers along one axis.
    pub fn ints(&self, values: &[i64]) -> Expr<'_> {
        self.constant(Tensor::from_ints(values))
    }

    /// The first `outputs` outputs of a node.
    pub fn node<'t>(
        &'t self,
        op: Rc<dyn Op>,
        inputs: &[Option<Expr<'t>>],
        outputs: usize,
    ) -> Vec<Expr<'t>> {
        self.node_around(op, inputs, outputs, Vec::new())
    }

    /// The same of a node with regions.
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

    /// Those outputs of a node that are wanted.
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
    /// The output of `op` on this and others.
    pub fn apply(self, op: impl Op, others: &[Expr<'t>]) -> Expr<'t> {
        let inputs: Vec<_> = [self].iter().chain(others).copied().map(Some).collect();
        self.tape.node(Rc::new(op), &inputs, 1)[0]
    }

    /// The tensor type; where it is not known, for what was written does not fit, that of a number.
    pub fn ty(self) -> TensorType {
        let ty = self.tape.look(|graph| graph[self.id].ty.as_tensor().cloned());
        ty.unwrap_or_else(|| TensorType::new::<Dim>(DType::F32, []))
    }

    /// The element type.
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    /// The sizes.
    pub fn dims(self) -> Vec<Dim> {
        self.ty().shape
    }

    /// The number of axes.
    pub fn rank(self) -> usize {
        self.ty().rank()
    }

    /// The elements, where they are known whole numbers.
    pub fn known_ints(self) -> Option<Vec<i64>> {
        self.tape.look(|graph| graph[self.id].ints())
    }

    /// A number of the same element type.
    pub fn number(self, value: f64) -> Expr<'t> {
        // Of whole numbers only `int64` are calculated with.
        let number = Tensor::from_number(self.dtype(), value);
        self.tape.constant(number.unwrap_or_else(|_| Tensor::from_int(value as i64)))
    }
}

/// Finds the derivatives by some values of others, the seeds, whose own are given, through these nodes.
pub type Backwards = for<'t> fn(
    tape: &'t Tape,
    nodes: &[NodeId],
    seeds: &[(Expr<'t>, Expr<'t>)],
    xs: &[ValueId],
) -> Result<Vec<Option<Expr<'t>>>>;

/// A node whose derivative is asked for.
pub struct Gradient<'t> {
    tape: &'t Tape,
    node: Node,
    backwards: Backwards,
    /// How many nodes the region had before.
    start: usize,
    /// Which of the values that it uses have a derivative that is wanted.
    live: HashSet<ValueId>,
    /// The derivatives of values that regions of the node take from around it.
    d_captures: Vec<(ValueId, Expr<'t>)>,
    /// The derivatives of the outputs; none where they are zero.
    d_outputs: Vec<Option<Expr<'t>>>,
    /// The derivatives of the inputs, as far as they were said.
    d_inputs: Vec<Option<Expr<'t>>>,
}

impl<'t> Gradient<'t> {
    /// Asks for the derivatives of what is `live` of what `node` uses.
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

    /// What the operator said, for each value once.
    pub fn ask(mut self) -> Result<Vec<(ValueId, Expr<'t>)>> {
        let node = self.node.clone();
        node.op.gradient(&mut self).map_err(|diagnostic| diagnostic.within(node.location()))?;
        let inputs = node.inputs.iter().zip(self.d_inputs);
        let inputs = inputs.filter_map(|(input, dx)| Some(((*input)?, dx?)));
        Ok(inputs.chain(self.d_captures).collect())
    }

    /// Says the derivatives of all that the node uses by formulas for the outputs: those nodes written
    /// since the derivative was asked for are walked backwards.
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

    /// The values that regions of the node take from around it and that have a wanted derivative.
    pub fn captures(&self) -> Vec<ValueId> {
        let mut captures: Vec<ValueId> = self.tape.look(|graph| {
            self.node.regions.iter().flat_map(|&region| graph.captures(region)).collect()
        });
        captures.retain(|id| self.live.contains(id));
        captures.sort_unstable();
        captures.dedup();
        captures
    }

    /// Says the derivative of a value that a region takes from around it.
    pub fn set_capture(&mut self, value: ValueId, dx: Expr<'t>) {
        self.d_captures.push((value, dx));
    }

    /// The derivatives by `xs` of values that the nodes of a region make, given their own.
    pub fn within_region(
        &self,
        region: RegionId,
        seeds: &[(Expr<'t>, Expr<'t>)],
        xs: &[ValueId],
    ) -> Result<Vec<Option<Expr<'t>>>> {
        let nodes = self.tape.look(|graph| graph[region].nodes.clone());
        (self.backwards)(self.tape, &nodes, seeds, xs)
    }

    /// Where formulas are written.
    pub fn tape(&self) -> &'t Tape {
        self.tape
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.node.inputs.len()
    }

    /// Whether input `i` is given.
    pub fn has(&self, i: usize) -> bool {
        self.node.input(i).is_some()
    }

    /// Input `i`, where it is given.
    pub fn optional(&self, i: usize) -> Option<Expr<'t>> {
        self.node.input(i).map(|id| self.tape.expr(id))
    }

    /// Input `i`, which the operator always has.
    pub fn x(&self, i: usize) -> Expr<'t> {
        self.optional(i).expect("inferring the types saw the input")
    }

    /// Output `i`; the node is done again where nobody wanted it.
    pub fn y(&self, i: usize) -> Expr<'t> {
        match self.node.output(i) {
            Some(id) => self.tape.expr(id),
            None => self.again(i + 1)[i],
        }
    }

    /// The first `outputs` outputs of the node, done again.
    pub fn again(&self, outputs: usize) -> Vec<Expr<'t>> {
        let inputs: Vec<_> = (0..self.inputs()).map(|i| self.optional(i)).collect();
        self.tape.node(self.node.op.clone(), &inputs, outputs)
    }

    /// The derivative of output `i`, where it is not zero.
    pub fn dy(&self, i: usize) -> Option<Expr<'t>> {
        self.d_outputs.get(i).copied().flatten()
    }

    /// Whether the derivative of input `i` is wanted.
    pub fn wants(&self, i: usize) -> bool {
        self.node.input(i).is_some_and(|id| self.live.contains(&id))
    }

    /// Says the derivative of input `i`. What was stretched to the shape of others is summed again,
    /// and what is of fewer elements than the input is stretched to it.
    pub fn set(&mut self, i: usize, dx: Expr<'t>) {
        self.d_inputs[i] = Some(dx);
    }

    /// The elements of input `i`, where they are known whole numbers.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.optional(i)?.known_ints()
    }

    /// The axis counted from the front, which inferring the types saw to be one of `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> usize {
        axis_from_front(axis, rank)
    }

    /// A diagnostic that says which derivative is missing.
    pub fn unsupported(&self, what: &str) -> Diagnostic {
        no_gradient(&*self.node.op, &format!(" {what} yet"))
    }
}

/// The diagnostic that an operator has no derivative.
pub(super) fn no_gradient(op: &dyn Op, what: &str) -> Diagnostic {
    Diagnostic::new(Code::NoGradient, format!("`{}` has no gradient{what}", op.name()))
}

/// Whether a value of that type can have a derivative.
pub fn is_differentiable(ty: &Type) -> bool {
    ty.dtype().is_some_and(DType::is_float)
}
