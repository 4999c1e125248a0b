//! The calls that compute an equation: operands are contracted two by two, where it can be as
//! products of matrices.

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

/// An operand, or what has been made of some.
pub struct Term {
    operand: Operand,
    /// Its axes, with how far apart the elements of each lie. No label is there twice.
    axes: Vec<(Label, Dim)>,
}

impl Term {
    /// An operand of `shape`. An axis with several labels' places is walked along their diagonal.
    pub fn new(operand: Operand, labels: &[Label], shape: &[Dim], sizes: &Sizes) -> Term {
        let mut axes: Vec<(Label, Dim)> = Vec::new();
        for ((label, dim), stride) in labels.iter().zip(shape).zip(geometry::strides(shape)) {
            let stride = match (label, dim.known()) {
                (_, Some(1)) => continue,
                (Label::Spread(_), None) if *dim != sizes[label] => {
                    stride * (Dim::from(1) - dim.equal(&1.into()))
                }
                _ => stride,
            };
            match axes.iter_mut().find(|(other, _)| other == label) {
                Some((_, diagonal)) => *diagonal = &*diagonal + stride,
                None => axes.push((*label, stride)),
            }
        }
        Term { operand, axes }
    }

    fn has(&self, label: Label) -> bool {
        self.axes.iter().any(|(other, _)| *other == label)
    }

    fn labels(&self) -> impl Iterator<Item = Label> {
        self.axes.iter().map(|(label, _)| *label)
    }

    /// How far apart the elements along `labels` lie, 0 for those that it lacks.
    fn strides(&self, labels: &[Label]) -> Vec<Dim> {
        let stride = |label: &Label| {
            let found = self.axes.iter().find(|(other, _)| other == label);
            found.map_or_else(|| 0.into(), |(_, stride)| stride.clone())
        };
        labels.iter().map(stride).collect()
    }
}

/// An equation at work.
pub struct Contraction<'c, 'a> {
    /// Where the calls go.
    pub cx: &'c mut Lower<'a>,
    /// The element type.
    pub dtype: DType,
    /// The size of each label's axes.
    pub sizes: Sizes,
    /// The axes of the result, without those of size 1.
    pub output: Vec<Label>,
}

/// The labels of a product of two operands.
struct Roles {
    /// In both and in the result.
    batch: Vec<Label>,
    /// In the left operand and in the result.
    rows: Vec<Label>,
    /// In the right operand and in the result.
    columns: Vec<Label>,
    /// In both alone.
    summed: Vec<Label>,
}

impl Contraction<'_, '_> {
    /// Calls kernels that contract `terms` into the output of the node.
    pub fn lower(mut self, mut terms: Vec<Term>) -> Result {
        let y = self.cx.output(0)?;
        while terms.len() > 2 {
            let (i, j) = self.next(&terms);
            let (b, a) = (terms.remove(j), terms.remove(i));
            let made = self.pair(a, b, &terms, None)?;
            terms.push(made);
        }
        let output = self.output.clone();
        let mut terms = terms.into_iter();
        match (terms.next(), terms.next()) {
            (Some(a), Some(b)) => self.pair(a, b, &[], Some(y)).map(drop),
            (Some(a), None) => self.gather(&a, &output, y),
            (None, _) => Ok(()),
        }
    }

    /// The two terms to contract next: those whose product has the fewest axes.
    fn next(&self, terms: &[Term]) -> (usize, usize) {
        let pairs = (1..terms.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let axes = |&(i, j): &(usize, usize)| {
            let others = || terms.iter().enumerate().filter(|(at, _)| *at != i && *at != j);
            let kept = |label: &Label| {
                self.output.contains(label) || others().any(|(_, term)| term.has(*label))
            };
            let all = terms[i].labels().chain(terms[j].labels().filter(|l| !terms[i].has(*l)));
            all.filter(kept).count()
        };
        pairs.min_by_key(axes).expect("there are three terms or more")
    }

    /// The product of two terms, summed along what neither the result nor the `others` need.
    fn pair(&mut self, a: Term, b: Term, others: &[Term], into: Option<Operand>) -> Result<Term> {
        let output = self.output.clone();
        let wanted = |label| output.contains(&label) || others.iter().any(|term| term.has(label));
        let a = self.sum_out(a, &|label| wanted(label) || b.has(label))?;
        let b = self.sum_out(b, &|label| wanted(label) || a.has(label))?;
        let of = |term: &Term, keep: &dyn Fn(Label) -> bool| {
            term.labels().filter(|&label| keep(label)).collect::<Vec<Label>>()
        };
        let mut roles = Roles {
            batch: of(&a, &|label| wanted(label) && b.has(label)),
            rows: of(&a, &|label| wanted(label) && !b.has(label)),
            columns: of(&b, &|label| wanted(label) && !a.has(label)),
            summed: of(&a, &|label| !wanted(label)),
        };
        let order = match &into {
            Some(_) => output.clone(),
            None => roles.order(),
        };
        let into = into.unwrap_or_else(|| self.scratch(&order));
        roles.sort_by(&order);
        let made = self.term(into.clone(), &order);
        if roles.summed.is_empty() {
            self.multiply(&a, &b, &order, into)?;
        } else if !ARITHMETIC.contains(&self.dtype) {
            self.sum_products(&a, &b, &roles.summed, &order, into)?;
        } else if order == roles.order() {
            self.product(&a, &b, &roles, into)?;
        } else if order == roles.turned().order() {
            self.product(&b, &a, &roles.turned(), into)?;
        } else {
            let apart = self.scratch(&roles.order());
            self.product(&a, &b, &roles, apart.clone())?;
            self.gather(&self.term(apart, &roles.order()), &order, into)?;
        }
        Ok(made)
    }

    /// The term summed along the axes that are not wanted.
    fn sum_out(&mut self, term: Term, wanted: &dyn Fn(Label) -> bool) -> Result<Term> {
        let kept: Vec<Label> = term.labels().filter(|&label| wanted(label)).collect();
        if kept.len() == term.axes.len() {
            return Ok(term);
        }
        let into = self.scratch(&kept);
        self.gather(&term, &kept, into.clone())?;
        Ok(self.term(into, &kept))
    }

    /// Writes a term with its axes in this order, and its other axes summed.
    fn gather(&mut self, term: &Term, order: &[Label], into: Operand) -> Result {
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

    /// Writes the products of the elements of two terms.
    fn multiply(&mut self, a: &Term, b: &Term, order: &[Label], into: Operand) -> Result {
        let operands = [a.strides(order), b.strides(order)];
        let (sizes, strides) = geometry::merged(&self.sizes(order), &operands);
        let [a_strides, b_strides] = <[_; 2]>::try_from(strides).expect("two operands");
        let inputs = vec![a.operand.clone().into(), b.operand.clone().into()];
        let geometry = Broadcast { sizes, a: a_strides, b: b_strides };
        self.cx.call_on(&MULTIPLY, self.dtype, inputs, vec![into.into()], geometry)
    }

    /// Writes the sums of products of elements that no product of matrices knows.
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

    /// Writes a stack of products of matrices.
    fn product(&mut self, a: &Term, b: &Term, roles: &Roles, into: Operand) -> Result {
        let Roles { batch, rows, columns, summed } = roles;
        let theirs: Vec<Label> = b.labels().filter(|label| summed.contains(label)).collect();
        let joins =
            |labels: &[Label]| self.joined(a, labels).is_some() && self.joined(b, labels).is_some();
        let summed = if joins(summed) || !joins(&theirs) { summed } else { &theirs };
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
        let stack = geometry::MatMul { sizes, a: a_strides, b: b_strides, c, matrix };
        matmul::product(self.cx, self.dtype, [a, b], into, stack)
    }

    /// A term as a stack of matrices: where it is, how far the matrices lie apart, and how their
    /// rows and columns do. It is copied where they do not do so evenly.
    fn matrix(
        &mut self,
        term: &Term,
        batch: &[Label],
        rows: &[Label],
        columns: &[Label],
    ) -> Result<(Operand, Vec<Dim>, Layout)> {
        if let (Some(row), Some(column)) = (self.joined(term, rows), self.joined(term, columns)) {
            let layout = Layout::Strides(row, column);
            return Ok((term.operand.clone(), term.strides(batch), layout));
        }
        let order = [batch, rows, columns].concat();
        let into = self.scratch(&order);
        self.gather(term, &order, into.clone())?;
        let strides = self.term(into.clone(), &order).strides(batch);
        Ok((into, strides, Layout::Strides(self.len(columns), 1.into())))
    }

    /// How far apart elements along the labels lie, taken as one axis, where they do so evenly.
    fn joined(&self, term: &Term, labels: &[Label]) -> Option<Dim> {
        let (strides, sizes) = (term.strides(labels), self.sizes(labels));
        let even = (1..labels.len()).all(|i| strides[i - 1] == &strides[i] * &sizes[i]);
        even.then(|| strides.last().cloned().unwrap_or_else(|| 1.into()))
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

    /// The term that lies at `operand` with its axes in this order.
    fn term(&self, operand: Operand, order: &[Label]) -> Term {
        let strides = geometry::strides(&self.sizes(order));
        Term { operand, axes: order.iter().copied().zip(strides).collect() }
    }
}

impl Roles {
    /// The axes of the product as a stack of matrices has them.
    fn order(&self) -> Vec<Label> {
        [&*self.batch, &self.rows, &self.columns].concat()
    }

    /// Puts the labels of each role into the order that the result has them in.
    fn sort_by(&mut self, order: &[Label]) {
        for labels in [&mut self.batch, &mut self.rows, &mut self.columns] {
            labels.sort_by_key(|label| order.iter().position(|other| other == label));
        }
    }

    /// The roles where left and right are exchanged.
    fn turned(&self) -> Roles {
        Roles {
            batch: self.batch.clone(),
            rows: self.columns.clone(),
            columns: self.rows.clone(),
            summed: self.summed.clone(),
        }
    }
}
