//! Instrumented models that are used only for analysis.

use super::{graph_builder::Draft, names};
use crate::ir::Attribute;
use onnxc_proto::{GraphProto, ModelProto, ValueInfoProto};

/// Returns the model with the nodes of a loss in its graph. The loss and the values called `names`
/// are additional outputs.
pub fn of_values(
    model: &ModelProto,
    main: &GraphProto,
    loss: &GraphProto,
    names: &[String],
) -> ModelProto {
    let mut graph = together(main, loss);
    graph.output.extend(names.iter().map(|name| output(name)));
    ModelProto { graph: Some(graph), ..model.clone() }
}

/// Returns the model with the nodes of a loss in its graph, and a `Gradient` of `y` by `xs` as
/// additional outputs.
pub fn of_gradient(
    model: &ModelProto,
    main: &GraphProto,
    loss: &GraphProto,
    xs: &[String],
    y: &str,
) -> ModelProto {
    let mut graph = together(main, loss);
    let mut draft = Draft::new("probe", names::taken(&graph));
    let inputs: Vec<&str> = xs.iter().map(String::as_str).collect();
    let gradients: Vec<String> = xs.iter().map(|x| draft.name(&format!("{x}.gradient"))).collect();
    let strings = xs.iter().map(|x| x.clone().into_bytes()).collect();
    let attributes = vec![("xs", Attribute::Strings(strings)), ("y", Attribute::String(y.into()))];
    draft.training("Gradient", "gradient", &inputs, &gradients, attributes);
    graph.node.extend(draft.finish().node);
    graph.output.extend(gradients.iter().map(|name| output(name)));
    ModelProto { graph: Some(graph), ..model.clone() }
}

fn output(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() }
}

fn together(main: &GraphProto, loss: &GraphProto) -> GraphProto {
    let mut graph = main.clone();
    graph.input.extend(loss.input.iter().cloned());
    graph.initializer.extend(loss.initializer.iter().cloned());
    graph.node.extend(loss.node.iter().cloned());
    graph.output.extend(loss.output.iter().cloned());
    graph
}
