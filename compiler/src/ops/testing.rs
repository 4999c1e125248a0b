//! Helpers for the tests of operators: one node on given inputs.

use super::reshape::Shape;
use crate::{
    dim::Dim,
    dtype::DType,
    ir::{Graph, NewNode, Op, ValueId, plan},
    plan::{FreeSizes, Optimize, Precision},
    tensor::Tensor,
    ty::Type,
};
use std::rc::Rc;

/// An input of the node under test.
pub enum Given {
    /// A tensor whose elements are known only at run time.
    Runtime(DType, Vec<Dim>),
    /// A value of that type, known only at run time.
    Value(Type),
    /// A constant of integers, of rank 1.
    Ints(Vec<i64>),
    /// A constant of integers, with a shape.
    Matrix(Vec<i64>, Vec<usize>),
    /// Sizes as elements, of rank 1.
    Sizes(Vec<Dim>),
    /// A missing optional input.
    Nothing,
}

/// Returns a tensor whose elements are known only at run time.
pub fn tensor<D: Into<Dim>, const N: usize>(dtype: DType, shape: [D; N]) -> Given {
    Given::Runtime(dtype, shape.into_iter().map(Into::into).collect())
}

/// Compares the types and known elements of a node's outputs, or its error, with `expected`. A node
/// with inferred types must also lower.
pub fn check(op: impl Op, inputs: &[Given], outputs: usize, expected: &str) {
    let mut graph = Graph::new(Rc::default());
    let inputs = inputs.iter().map(|input| value(&mut graph, input)).collect();
    let names: Vec<Option<String>> = (0..outputs).map(|i| Some(format!("y{i}"))).collect();
    let new = NewNode { name: "y", op: Rc::new(op), inputs, outputs: &names, regions: Vec::new() };
    let (id, result) = graph.node(graph.body, new);
    let outputs: Vec<ValueId> = graph[id].outputs.iter().flatten().copied().collect();
    let actual = match result {
        Err(diagnostic) => diagnostic.message,
        Ok(()) => {
            let text = |&id: &ValueId| match &graph[id].known {
                Some(known) => format!("{} = {known:?}", graph[id].ty),
                None => graph[id].ty.to_string(),
            };
            outputs.iter().map(text).collect::<Vec<_>>().join("; ")
        }
    };
    assert_eq!(actual, expected);
    if graph[outputs[0]].ty != Type::Unknown {
        graph.set_outputs(graph.body, outputs);
        let planned = plan(&graph, Optimize::Speed, Precision::Full, FreeSizes::Arena);
        planned.expect("a node that has types lowers");
    }
}

fn value(graph: &mut Graph, given: &Given) -> Option<ValueId> {
    Some(match given {
        Given::Runtime(dtype, shape) => graph.input(graph.body, "x", Type::tensor(*dtype, shape)),
        Given::Value(ty) => graph.input(graph.body, "x", ty.clone()),
        Given::Ints(values) => graph.constant("ints", Tensor::from_ints(values)),
        Given::Matrix(values, shape) => {
            let shape = shape.clone();
            graph.constant("matrix", Tensor { shape, ..Tensor::from_ints(values) })
        }
        Given::Sizes(sizes) => {
            let like = graph.input(graph.body, "like", Type::tensor(DType::F32, sizes));
            let shape = Shape { start: 0, end: None };
            graph.add(graph.body, "sizes", shape, &[like]).expect("every tensor has a shape")
        }
        Given::Nothing => return None,
    })
}
