//! The reasons why nodes were not fused.

use onnxc::{
    diag::quoted,
    ir::{Graph, Node, Uses, ValueId},
};

/// The operators whose kernels apply a bias and an activation to their result.
const HOSTS: &[&str] = &["Conv", "ConvTranspose", "Gemm", "MatMul", "ConvInteger", "MatMulInteger"];

/// The operators that those kernels may apply.
const GUESTS: &[&str] = &[
    "Add",
    "Clip",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Mish",
    "Mul",
    "PRelu",
    "QuickGelu",
    "Relu",
    "Selu",
    "Sigmoid",
    "Silu",
    "Softplus",
    "Sub",
    "Swish",
    "Tanh",
];

/// Returns the nodes that stayed apart from the product or convolution before them, each with the
/// reason.
pub fn unfused(graph: &Graph) -> Vec<(&Node, String)> {
    let uses = Uses::of(graph);
    let guests = graph.walk(graph.body).map(|(_, node)| node);
    let guests = guests.filter(|node| GUESTS.contains(&node.op.name()));
    guests.filter_map(|node| Some((node, reason(graph, &uses, node)?))).collect()
}

fn reason(graph: &Graph, uses: &Uses<'_>, node: &Node) -> Option<String> {
    let host = |&value: &ValueId| {
        let producer = graph.producer(value)?;
        HOSTS.contains(&producer.op.name()).then_some((value, producer))
    };
    let (value, producer) = node.inputs.iter().flatten().find_map(host)?;
    let (name, label) = (quoted(&graph[value].name), producer.location());
    let others = uses.count(value).saturating_sub(1);
    Some(match others {
        0 => format!("the kernel of {label} does not apply it"),
        1 => format!("{name}, the output of {label}, has another reader"),
        others => format!("{name}, the output of {label}, has {others} other readers"),
    })
}
