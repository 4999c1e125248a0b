//! Lowers an equation: contracts two operands at a time, as matrix products if possible.

use super::equation::{Label, Sizes};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{ARITHMETIC, DType},
    ir::Lower,
    ops::matmul,
    plan::{
        Kernel, Operand,
        geometry::{self, Broadcast, Layout, Reduction, Strided},
        kernel,
    },
};

static COPY: Kernel<Strided> = kernel!(NUMERIC T, transpose::transpose::<T>,
    |f, a, p| f(a.input(0), a.output(0), p));
static SUM: Kernel<Reduction> = kernel!(NUMERIC T, reduce::reduce_sum::<T>,
    |f, a, p| f(a.input(0), a.output(0), p));
static MULTIPLY: Kernel<Broadcast> = kernel!(NUMERIC T, binary::mul::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));
static CONTRACT: Kernel<geometry::Contraction> = kernel!(INTEGERS T, einsum::contract::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

/// An operand, or an intermediate result.
pub struct Term {
    operand: Operand,
    /// The labels of its axes with their strides, in elements. The labels are distinct.
    axes: Vec<(Label, Dim)>,
    /// The labels whose stride the run makes 0, if their axis has size 1 and is broadcast.
    open: Vec<Label>,
}

impl Term {
    /// An operand of `shape`. Axes with the same label become one axis along their diagonal.
    pub fn new(operand: Operand, labels: &[Label], shape: &[Dim], sizes: &Sizes) -> Term {
        let (mut axes, mut open): (Vec<(Label, Dim)>, Vec<Label>) = Default::default();
        for ((label, dim), stride) in labels.iter().zip(shape).zip(geometry::strides(shape)) {
            let stride = match dim.known() {
                Some(1) => continue,
                None if *dim != sizes[label] => {
                    open.push(*label);
                    stride * (Dim::from(1) - dim.equal(&1.into()))
                }
                _ => stride,
            };
            match axes.iter_mut().find(|(other, _)| other == label) {
                Some((_, diagonal)) => *diagonal = &*diagonal + stride,
                None => axes.push((*label, stride)),
            }
        }
        Term { operand, axes, open }
    }

    fn has(&self, label: Label) -> bool {
        self.axes.iter().any(|(other, _)| *other == label)
    }

    fn labels(&self) -> impl Iterator<Item = Label> {
        self.axes.iter().map(|(label, _)| *label)
    }

    /// The strides along `labels`, in elements; 0 for a label that the term lacks.
    fn strides(&self, labels: &[Label]) -> Vec<Dim> {
        let stride = |label: &Label| {
            let axis = self.axes.iter().find(|(other, _)| other == label);
            axis.map_or_else(|| 0.into(), |(_, stride)| stride.clone())
        };
        labels.iter().map(stride).collect()
    }
}

/// An equation that is being lowered.
pub struct Contraction<'c, 'a> {
    /// The context that records the calls.
    pub cx: &'c mut Lower<'a>,
    /// The element type.
    pub dtype: DType,
    /// The size of each label's axes.
    pub sizes: Sizes,
    /// The axes of the result, without those of size 1.
    pub output: Vec<Label>,
}

/// The labels of a product of two operands, by their role in a batched matrix product.
struct Roles {
    /// In both operands and in the result.
    batch: Vec<Label>,
    /// In the left operand and in the result.
    rows: Vec<Label>,
    /// In the right operand and in the result.
    columns: Vec<Label>,
    /// In both operands, but not in the result.
    summed: Vec<Label>,
}

impl Contraction<'_, '_> {
    /// Calls the kernels that contract `terms` to the output of the node.
    pub fn lower(mut self, mut terms: Vec<Term>) -> Result {
        let y = self.cx.output(0)?;
        while terms.len() > 2 {
            let (i, j) = self.choose_pair(&terms);
            let (b, a) = (terms.remove(j), terms.remove(i));
            let product = self.contract_pair(a, b, &terms, None)?;
            terms.push(product);
        }
        let output = self.output.clone();
        let mut terms = terms.into_iter();
        match (terms.next(), terms.next()) {
            (Some(a), Some(b)) => self.contract_pair(a, b, &[], Some(y)).map(drop),
            (Some(a), None) => self.copy_or_sum(&a, &output, y),
            (None, _) => Ok(()),
        }
    }

    /// Chooses the two terms to contract next: those whose product has the fewest axes.
    fn choose_pair(&self, terms: &[Term]) -> (usize, usize) {
        let pairs = (1..terms.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let axes = |&(i, j): &(usize, usize)| {
            let others = || terms.iter().enumerate().filter(|(at, _)| *at != i && *at != j);
            let kept = |label: &Label| {
                self.output.contains(label) || others().any(|(_, term)| term.has(*label))
            };
            let all = terms[i].labels().chain(terms[j].labels().filter(|l| !terms[i].has(*l)));
            all.filter(kept).count()
        };
        pairs.min_by_key(axes).expect("the caller has three terms or more")
    }

    /// Multiplies two terms, and sums the product along the axes that neither the result nor
    /// `others` have. Writes to `into`, or else to scratch memory.
    fn contract_pair(
        &mut self,
        a: Term,
        b: Term,
        others: &[Term],
        into: Option<Operand>,
    ) -> Result<Term> {
        let output = self.output.clone();
        let is_used = |label| output.contains(&label) || others.iter().any(|term| term.has(label));
        let a = self.sum_unused(a, &|label| is_used(label) || b.has(label))?;
        let b = self.sum_unused(b, &|label| is_used(label) || a.has(label))?;
        let labels_of = |term: &Term, keep: &dyn Fn(Label) -> bool| {
            term.labels().filter(|&label| keep(label)).collect::<Vec<Label>>()
        };
        let mut roles = Roles {
            batch: labels_of(&a, &|label| is_used(label) && b.has(label)),
            rows: labels_of(&a, &|label| is_used(label) && !b.has(label)),
            columns: labels_of(&b, &|label| is_used(label) && !a.has(label)),
            summed: labels_of(&a, &|label| !is_used(label)),
        };
        let order = match &into {
            Some(_) => output.clone(),
            None => roles.order(),
        };
        let into = into.unwrap_or_else(|| self.scratch(&order));
        roles.sort_by(&order);
        let product = self.term(into.clone(), &order);
        if roles.summed.is_empty() {
            self.multiply(&a, &b, &order, into)?;
        } else if !ARITHMETIC.contains(&self.dtype) {
            self.sum_products(&a, &b, &roles.summed, &order, into)?;
        } else if order == roles.order() {
            self.matrix_product(&a, &b, &roles, into)?;
        } else if order == roles.exchanged().order() {
            self.matrix_product(&b, &a, &roles.exchanged(), into)?;
        } else {
            let unordered = self.scratch(&roles.order());
            self.matrix_product(&a, &b, &roles, unordered.clone())?;
            self.copy_or_sum(&self.term(unordered, &roles.order()), &order, into)?;
        }
        Ok(product)
    }

    /// Sums a term along the axes whose labels `is_used` rejects.
    fn sum_unused(&mut self, term: Term, is_used: &dyn Fn(Label) -> bool) -> Result<Term> {
        let kept: Vec<Label> = term.labels().filter(|&label| is_used(label)).collect();
        if kept.len() == term.axes.len() {
            return Ok(term);
        }
        let into = self.scratch(&kept);
        self.copy_or_sum(&term, &kept, into.clone())?;
        Ok(self.term(into, &kept))
    }

    /// Copies a term to `into` with its axes in `order`, summed along its other axes.
    fn copy_or_sum(&mut self, term: &Term, order: &[Label], into: Operand) -> Result {
        let others: Vec<Label> = term.labels().filter(|label| !order.contains(label)).collect();
        let (x, y) = (vec![term.operand.clone().into()], vec![into.into()]);
        let (sizes, strides) = (self.sizes(order), term.strides(order));
        if others.is_empty() {
            let geometry = Strided::of(&sizes, strides, 0.into());
            return self.cx.call_on(&COPY, self.dtype, x, y, geometry);
        }
        let reduced = (self.sizes(&others), term.strides(&others));
        let geometry = Reduction::of((&sizes, &strides), (&reduced.0, &reduced.1));
        self.cx.call_on(&SUM, self.dtype, x, y, geometry)
    }

    /// Multiplies two terms element-wise.
    fn multiply(&mut self, a: &Term, b: &Term, order: &[Label], into: Operand) -> Result {
        let operands = [a.strides(order), b.strides(order)];
        let (sizes, strides) = geometry::merged(&self.sizes(order), &operands);
        let [a_strides, b_strides] = <[_; 2]>::try_from(strides).expect("two operands");
        let inputs = vec![a.operand.clone().into(), b.operand.clone().into()];
        let geometry = Broadcast { sizes, a: a_strides, b: b_strides };
        self.cx.call_on(&MULTIPLY, self.dtype, inputs, vec![into.into()], geometry)
    }

    /// Contracts two terms by a generic kernel, for element types without matrix products.
    fn sum_products(
        &mut self,
        a: &Term,
        b: &Term,
        summed: &[Label],
        order: &[Label],
        into: Operand,
    ) -> Result {
        let geometry = geometry::Contraction {
            sizes: self.sizes(order),
            a: a.strides(order),
            b: b.strides(order),
            summed: self.sizes(summed),
            a_summed: a.strides(summed),
            b_summed: b.strides(summed),
        };
        let inputs = vec![a.operand.clone().into(), b.operand.clone().into()];
        self.cx.call_on(&CONTRACT, self.dtype, inputs, vec![into.into()], geometry)
    }

    /// Contracts two terms by a batched matrix product.
    fn matrix_product(&mut self, a: &Term, b: &Term, roles: &Roles, into: Operand) -> Result {
        let Roles { batch, rows, columns, summed } = roles;
        // Prefer an order of the summed axes in which neither operand has to be copied.
        let order_of_b: Vec<Label> = b.labels().filter(|label| summed.contains(label)).collect();
        let are_merged = |labels: &[Label]| {
            self.merged_stride(a, labels).is_some() && self.merged_stride(b, labels).is_some()
        };
        let summed =
            if are_merged(summed) || !are_merged(&order_of_b) { summed } else { &order_of_b };
        let (a, a_batch, a_layout) = self.matrix(a, batch, rows, summed)?;
        let (b, b_batch, b_layout) = self.matrix(b, batch, summed, columns)?;
        let n = self.len(columns);
        let matrix = geometry::Gemm {
            m: self.len(rows),
            k: self.len(summed),
            a: a_layout,
            b: b_layout,
            c: [0.into(), 0.into()],
            y_row: n.clone(),
            alpha: 1.0,
            beta: 1.0,
            n,
        };
        let none = vec![0.into(); batch.len()];
        let (sizes, strides) = geometry::merged(&self.sizes(batch), &[a_batch, b_batch, none]);
        let [a_strides, b_strides, c] = <[_; 3]>::try_from(strides).expect("three operands");
        let geometry = geometry::MatMul { sizes, a: a_strides, b: b_strides, c, matrix };
        matmul::lower_product(self.cx, self.dtype, [a, b], into, geometry)
    }

    /// A term as a batch of matrices: the operand, its batch strides, and its row and column
    /// strides. Copies the term if its rows or columns do not have a single stride, or if the
    /// stride may be 0, which the kernels of products do not take for columns.
    fn matrix(
        &mut self,
        term: &Term,
        batch: &[Label],
        rows: &[Label],
        columns: &[Label],
    ) -> Result<(Operand, Vec<Dim>, Layout)> {
        let strides = (self.merged_stride(term, rows), self.merged_stride(term, columns));
        let is_open = term.open.iter().any(|label| !batch.contains(label));
        if let ((Some(row), Some(column)), false) = (strides, is_open) {
            let layout = Layout::Strides(row, column);
            return Ok((term.operand.clone(), term.strides(batch), layout));
        }
        let order = [batch, rows, columns].concat();
        let into = self.scratch(&order);
        self.copy_or_sum(term, &order, into.clone())?;
        let strides = self.term(into.clone(), &order).strides(batch);
        Ok((into, strides, Layout::Strides(self.len(columns), 1.into())))
    }

    /// The stride of the axes `labels` merged to one axis; `None` if they cannot be merged.
    fn merged_stride(&self, term: &Term, labels: &[Label]) -> Option<Dim> {
        let (strides, sizes) = (term.strides(labels), self.sizes(labels));
        let is_contiguous = (1..labels.len()).all(|i| strides[i - 1] == &strides[i] * &sizes[i]);
        is_contiguous.then(|| strides.last().cloned().unwrap_or_else(|| 1.into()))
    }

    fn sizes(&self, labels: &[Label]) -> Vec<Dim> {
        labels.iter().map(|label| self.sizes[label].clone()).collect()
    }

    fn len(&self, labels: &[Label]) -> Dim {
        self.sizes(labels).iter().product()
    }

    fn scratch(&mut self, labels: &[Label]) -> Operand {
        let len = self.len(labels);
        self.cx.scratch(self.dtype, len)
    }

    /// The contiguous term at `operand` with its axes in `order`.
    fn term(&self, operand: Operand, order: &[Label]) -> Term {
        let strides = geometry::strides(&self.sizes(order));
        let axes = order.iter().copied().zip(strides).collect();
        Term { operand, axes, open: Vec::new() }
    }
}

impl Roles {
    /// The axes of the result of the batched matrix product.
    fn order(&self) -> Vec<Label> {
        [&*self.batch, &self.rows, &self.columns].concat()
    }

    /// Sorts the labels of each role by their position in `order`.
    fn sort_by(&mut self, order: &[Label]) {
        for labels in [&mut self.batch, &mut self.rows, &mut self.columns] {
            labels.sort_by_key(|label| order.iter().position(|other| other == label));
        }
    }

    /// The roles with the left and the right operand exchanged.
    fn exchanged(&self) -> Roles {
        Roles {
            batch: self.batch.clone(),
            rows: self.columns.clone(),
            columns: self.rows.clone(),
            summed: self.summed.clone(),
        }
    }
}
