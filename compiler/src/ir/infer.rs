//! The context in which an operator infers the types of its outputs.

use super::{Graph, NewNode, RegionId, ValueId, shape_origin::shape_origin};
use crate::{
    diag::{Code, Diagnostic, counted, quoted, there_are},
    dim::{Dim, Known, Symbol},
    dtype::DType,
    plan::Check,
    tensor::Tensor,
    ty::{MAX_RANK, TensorType, Type},
};
use std::collections::BTreeSet;

/// Types, or the reason why there are none.
pub type Inferred<T = Vec<Type>> = Result<T, Stop>;

/// The reason why an operator infers no types.
#[derive(Debug)]
pub enum Stop {
    /// The type of an input is unknown, and so are the types of the outputs.
    Unknown,
    /// An error.
    Found(Diagnostic),
}

impl From<Diagnostic> for Stop {
    fn from(diagnostic: Diagnostic) -> Stop {
        Stop::Found(diagnostic)
    }
}

/// The inputs of a node, and the facts that its operator infers besides the types of the outputs.
pub struct Infer<'a> {
    pub(super) graph: &'a Graph,
    inputs: &'a [Option<ValueId>],
    regions: &'a [RegionId],
    outputs: &'a [Option<String>],
    pub(super) finds: Finds,
}

/// The inferred facts besides the types.
#[derive(Default)]
pub(super) struct Finds {
    /// The elements of constant outputs.
    pub constants: Vec<(usize, Tensor)>,
    /// The elements of outputs, as size expressions.
    pub known: Vec<(usize, Vec<Dim>)>,
    /// The elements of outputs, where only some are known.
    pub partly: Vec<(usize, Vec<Option<Dim>>)>,
    /// New symbols.
    pub symbols: Vec<(Symbol, Known)>,
    /// The symbols that the node defines.
    pub binds: Vec<Symbol>,
    /// The conditions on sizes.
    pub checks: Vec<Check>,
}

/// Returns what was found for output `i`.
pub(super) fn of_output<T: Clone>(found: &[(usize, T)], i: usize) -> Option<T> {
    found.iter().find(|(output, _)| *output == i).map(|(_, found)| found.clone())
}

impl<'a> Infer<'a> {
    pub(super) fn new(graph: &'a Graph, new: &'a NewNode<'_>) -> Infer<'a> {
        let finds = Finds::default();
        Infer { graph, inputs: &new.inputs, regions: &new.regions, outputs: new.outputs, finds }
    }

    pub(super) fn finish(self) -> Finds {
        self.finds
    }

    /// Returns the number of inputs, omitted ones before the last included.
    pub fn inputs(&self) -> usize {
        self.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
    }

    /// Returns the number of inputs, all omitted ones included.
    pub fn given(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the number of outputs, omitted ones included.
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Returns whether input `i` is present.
    pub fn has(&self, i: usize) -> bool {
        self.value(i).is_some()
    }

    /// Returns the type of input `i`, which must be present.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is missing.
    pub fn any(&self, i: usize) -> Inferred<&'a Type> {
        let Some(id) = self.value(i) else {
            let message = format!("input {i} is missing, which the operator requires");
            return Err(Diagnostic::new(Code::BadArity, message).into());
        };
        Ok(&self.graph[id].ty)
    }

    /// Returns the tensor type of input `i`; stops if it is unknown or not a tensor.
    ///
    /// # Errors
    ///
    /// Returns [`Stop::Unknown`] if the type or the rank is unknown, or an error if the input is
    /// missing or not a tensor.
    pub fn ty(&self, i: usize) -> Inferred<&'a TensorType> {
        match self.any(i)? {
            Type::Tensor(ty) => Ok(ty),
            Type::Unknown | Type::Unranked(_) => Err(Stop::Unknown),
            other => {
                let message = format!("input {i} must be a tensor, but is {other}");
                Err(self.diagnostic(Code::TypeMismatch, message))
            }
        }
    }

    /// Returns the element type of input `i`, which must be a sequence of tensors.
    ///
    /// # Errors
    ///
    /// Returns [`Stop::Unknown`] if the type is unknown, or an error if it is no tensor sequence.
    pub fn sequence(&self, i: usize) -> Inferred<&'a Type> {
        match self.any(i)? {
            Type::Unknown => Err(Stop::Unknown),
            ty => ty.element().ok_or_else(|| {
                let message = format!("input {i} must be a sequence of tensors, but is {ty}");
                self.diagnostic(Code::TypeMismatch, message)
            }),
        }
    }

    /// Returns the tensor type of input `i`, if it is present.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::ty`] if the input is present.
    pub fn optional(&self, i: usize) -> Inferred<Option<&'a TensorType>> {
        if self.has(i) { self.ty(i).map(Some) } else { Ok(None) }
    }

    /// Returns the shape of input `i`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::ty`].
    pub fn shape(&self, i: usize) -> Inferred<&'a [Dim]> {
        Ok(&self.ty(i)?.shape)
    }

    /// Returns the tensor type of input `i`, whose element type must be one of `allowed`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::ty`], or an error if the element type is not allowed.
    pub fn of(&self, i: usize, allowed: &[DType]) -> Inferred<&'a TensorType> {
        let ty = self.ty(i)?;
        if allowed.contains(&ty.dtype) {
            return Ok(ty);
        }
        let names: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let message = format!("input {i} is {}, which the operator does not allow", ty.dtype);
        let note = format!("allowed: {}", names.join(", "));
        Err(match self.diagnostic(Code::TypeMismatch, message) {
            Stop::Found(diagnostic) => Stop::Found(diagnostic.note(note)),
            Stop::Unknown => Stop::Unknown,
        })
    }

    /// Returns the tensor type of input `i`, which must have rank `rank`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::ty`], or an error if the input has another rank.
    pub fn ranked(&self, i: usize, rank: usize) -> Inferred<&'a TensorType> {
        let ty = self.ty(i)?;
        if ty.rank() == rank {
            return Ok(ty);
        }
        let wanted = counted(rank, "axis");
        let message = format!("input {i} must have {wanted}, but has {}", ty.rank());
        Err(self.diagnostic(Code::ShapeMismatch, message))
    }

    /// Requires inputs `i` and `j` to have the same element type.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::ty`], or an error if the element types differ.
    pub fn same_dtype(&self, i: usize, j: usize) -> Inferred<()> {
        let (a, b) = (self.ty(i)?.dtype, self.ty(j)?.dtype);
        if a == b {
            return Ok(());
        }
        let message = format!("inputs {i} and {j} must have one element type, not {a} and {b}");
        Err(self.diagnostic(Code::TypeMismatch, message))
    }

    /// Returns the number of elements of input `i`, a list of axes or of sizes of axes. It must
    /// have one axis of a known size.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Infer::ty`], [`Stop::Unknown`] if the size is unknown, or an error
    /// if the input has several axes or more elements than a tensor may have axes.
    pub fn count(&self, i: usize) -> Inferred<usize> {
        let shape = self.shape(i)?;
        let len: Dim = shape.iter().product();
        match len.known() {
            // Two numbers for each axis are the pads of `Pad`.
            Some(n) if n > 2 * MAX_RANK as i64 => {
                let message = format!("input {i} lists {n} axes; a tensor has at most {MAX_RANK}");
                Err(self.diagnostic(Code::TooLarge, message))
            }
            Some(n) if shape.len() <= 1 => Ok(usize::try_from(n).unwrap_or(0)),
            Some(_) => {
                let message = format!("input {i} must have one axis, but has {}", shape.len());
                Err(self.diagnostic(Code::ShapeMismatch, message))
            }
            None => Err(Stop::Unknown),
        }
    }

    /// Returns the types of the outputs of region `i`.
    pub fn region_outputs(&self, i: usize) -> impl Iterator<Item = &'a Type> {
        let graph = self.graph;
        graph[self.regions[i]].outputs.iter().map(move |&id| &graph[id].ty)
    }

    /// Returns the types of the inputs of region `i`, if it is built already.
    pub fn region_inputs(&self, i: usize) -> Option<Vec<Type>> {
        let region = &self.graph[*self.regions.get(i)?];
        Some(region.inputs.iter().map(|&id| self.graph[id].ty.clone()).collect())
    }

    /// Returns the types of the outputs of region `i`, if it is built already.
    pub fn region_results(&self, i: usize) -> Vec<Type> {
        let Some(&region) = self.regions.get(i) else { return Vec::new() };
        self.graph[region].outputs.iter().map(|&id| self.graph[id].ty.clone()).collect()
    }

    /// Returns whether result `j` of region `i` is true whenever its input `k` is.
    pub fn result_stays_true(&self, i: usize, j: usize, k: usize) -> bool {
        stays_true(self.graph, self.regions[i], j, k)
    }

    /// Returns the symbols that region `i` defines, which have no meaning outside of it.
    pub fn settled_inside(&self, i: usize) -> BTreeSet<Symbol> {
        let mut settled = BTreeSet::new();
        self.graph.settled_in(self.regions[i], &mut settled);
        settled
    }

    /// Returns whether region `i` always ends with an error.
    pub fn region_is_faulty(&self, i: usize) -> bool {
        self.graph.is_faulty(self.regions[i])
    }

    /// Returns whether a node of region `i` defines a symbol of `dim`.
    pub fn region_settles(&self, i: usize, dim: &Dim) -> bool {
        self.graph.settles(self.regions[i], dim)
    }

    /// Makes output `i` a constant, which needs no run-time computation.
    pub fn set_constant(&mut self, i: usize, elements: Tensor) {
        self.finds.constants.push((i, elements));
    }

    /// Sets the elements of output `i` to size expressions.
    pub fn set_known(&mut self, i: usize, elements: Vec<Dim>) {
        self.finds.known.push((i, elements));
    }

    /// Sets the elements of output `i` to computed size expressions, if there are any and all are
    /// in the range of the element type: operators wrap around beyond it.
    pub fn set_computed(&mut self, i: usize, dtype: DType, elements: Option<Vec<Dim>>) {
        let fits = |elements: &Vec<Dim>| elements.iter().all(|dim| self.fits(dim, dtype));
        if let Some(elements) = elements.filter(fits) {
            self.set_known(i, elements);
        }
    }

    /// Returns whether an integer is in the range of the element type. An unknown one is, for
    /// `int32`, unless its bound is larger: models that compute sizes in `int32` have no others.
    pub fn fits(&self, dim: &Dim, dtype: DType) -> bool {
        let Some((least, most)) = dtype.range() else { return false };
        match (dim.known(), dtype) {
            (Some(n), _) => (least..=most).contains(&n),
            (None, DType::I32) => self.upper(dim).is_none_or(|bound| bound <= most),
            (None, dtype) => matches!(dtype, DType::I64 | DType::Bool),
        }
    }

    /// Sets the known elements of output `i` to size expressions.
    pub fn set_partly(&mut self, i: usize, elements: Vec<Option<Dim>>) {
        self.finds.partly.push((i, elements));
    }

    /// Creates a symbol of a data-dependent size, which the node defines.
    pub fn fresh(&mut self, hint: &str, max: Option<i64>) -> Dim {
        let name = self.unused(hint);
        let label = name.to_string();
        self.finds.symbols.push((name.clone(), Known { label, max }));
        self.finds.binds.push(name.clone());
        Dim::symbol(&name)
    }

    /// Creates a symbol for each of `bounds`, named after the first output.
    pub fn fresh_sizes(&mut self, bounds: impl IntoIterator<Item = Option<i64>>) -> Vec<Dim> {
        let name = self.outputs.iter().flatten().next().cloned().unwrap_or_default();
        let name = crate::ident::words(&name);
        let sizes = bounds.into_iter().enumerate();
        sizes.map(|(i, max)| self.fresh(&format!("{name}_{i}"), max)).collect()
    }

    /// Returns the types of the nodes that `nodes` writes in place of the node, with all inferred
    /// facts. `nodes` receives a graph of its own with copies of the inputs.
    ///
    /// # Errors
    ///
    /// Returns the error of `nodes`, or [`Stop::Unknown`] if a type is unknown.
    pub fn as_written(
        &mut self,
        nodes: impl FnOnce(&mut Graph, Vec<Option<ValueId>>) -> crate::diag::Result<Vec<ValueId>>,
    ) -> Inferred {
        let (mut alone, inputs) = self.graph.alone(self.inputs);
        let outputs = nodes(&mut alone, inputs)?;
        let new = alone.symbols.iter().filter(|(name, _)| !self.graph.symbols.contains_key(*name));
        self.finds.symbols.extend(new.map(|(name, size)| (name.clone(), size.clone())));
        for (_, node) in alone.nodes() {
            self.finds.binds.extend(node.binds.iter().cloned());
            self.finds.checks.extend(node.checks.iter().cloned());
        }
        for (i, &id) in outputs.iter().enumerate() {
            self.finds.constants.extend(alone[id].constant.clone().map(|tensor| (i, tensor)));
            self.finds.known.extend(alone[id].known.clone().map(|known| (i, known)));
        }
        Ok(outputs.iter().map(|&id| alone[id].ty.clone()).collect())
    }

    /// Returns the upper bound of `dim`, if each of its symbols has one.
    pub fn upper(&self, dim: &Dim) -> Option<i64> {
        let fresh = |name: &str| self.finds.symbols.iter().find(|(symbol, _)| &**symbol == name);
        dim.bound(&|name| match self.graph.symbols.get(name) {
            Some(size) => size.max,
            None => fresh(name)?.1.max,
        })
    }

    /// Returns the axis counted from the front; `axis` must be one of `rank` axes.
    ///
    /// # Errors
    ///
    /// Returns an error if `axis` is out of range.
    pub fn axis(&self, name: &str, axis: i64, rank: usize) -> Inferred<usize> {
        let signed = rank as i64;
        if (-signed..signed).contains(&axis) {
            return Ok(axis.rem_euclid(signed) as usize);
        }
        let message = format!("`{name}` is {axis}, but {}", there_are(rank, "axis"));
        Err(self.diagnostic(Code::BadAttribute, message))
    }

    /// Returns the axes counted from the front; they must be distinct axes of `rank`.
    ///
    /// # Errors
    ///
    /// Returns an error if an axis is out of range or occurs twice.
    pub fn axes(&self, name: &str, axes: &[i64], rank: usize) -> Inferred<Vec<usize>> {
        let mut found = Vec::new();
        for &axis in axes {
            let axis = self.axis(name, axis, rank)?;
            if found.contains(&axis) {
                let message = format!("`{name}` names axis {axis} twice");
                return Err(self.diagnostic(Code::BadAttribute, message));
            }
            found.push(axis);
        }
        Ok(found)
    }

    /// Returns an error with the types of the inputs.
    pub fn diagnostic(&self, code: Code, message: impl Into<String>) -> Stop {
        let mut diagnostic = Diagnostic::new(code, message);
        for (i, id) in self.inputs.iter().enumerate().filter_map(|(i, id)| Some((i, (*id)?))) {
            let value = &self.graph[id];
            diagnostic.notes.push(format!("input {i}: {} {}", value.ty, quoted(&value.name)));
            if code == Code::ShapeMismatch {
                diagnostic.notes.extend(shape_origin(self.graph, id));
            }
        }
        Stop::Found(diagnostic)
    }

    /// Returns the value that is input `i`, if it is not omitted.
    pub(super) fn value(&self, i: usize) -> Option<ValueId> {
        self.inputs.get(i).copied().flatten()
    }

    /// Returns an unused symbol with a name like `hint`.
    fn unused(&self, hint: &str) -> Symbol {
        let name = |n: usize| if n == 1 { hint.to_owned() } else { format!("{hint}_{n}") };
        let taken = |n: usize| {
            let name = name(n);
            self.graph.symbols.contains_key(&*name)
                || self.finds.symbols.iter().any(|(symbol, _)| **symbol == *name)
        };
        // Numbers are assigned in order, so the first free one is found quickly.
        let (mut last, mut free) = (0, 1);
        while taken(free) {
            (last, free) = (free, 2 * free);
        }
        while last + 1 < free {
            let middle = last.midpoint(free);
            if taken(middle) { last = middle } else { free = middle }
        }
        name(free).into()
    }
}

/// Returns whether result `j` of a region is true whenever its input `k` is.
pub(super) fn stays_true(graph: &Graph, region: RegionId, j: usize, k: usize) -> bool {
    let region = &graph[region];
    let Some(&result) = region.outputs.get(j) else { return false };
    let constant = graph[result].constant.as_ref().and_then(Tensor::ints);
    region.inputs.get(k) == Some(&result) || constant == Some(vec![1])
}
