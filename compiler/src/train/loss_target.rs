//! Selects the output that the loss applies to.

use super::loss::Loss;
use crate::{
    choice::Choice,
    diag::{Code, Diagnostic, Result, quoted},
    dim::Dim,
    domain::canonical,
    dtype::F32_AND_F64,
    ir::Graph,
    ty::{TensorType, Type},
};
use onnxc_proto::{GraphProto, NodeProto};

/// The target of a loss.
#[derive(Debug)]
pub struct Subject {
    /// The name of the value.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
    /// The axis of the classes, for a loss of classes.
    pub class_axis: usize,
}

/// Returns the target of the loss: the output called `name`, or the only one. If a `Softmax` or
/// `Sigmoid` that the loss includes computes it, the target is the operator's input.
///
/// # Errors
///
/// Returns an error if there is no such output, or if its type does not fit the loss.
pub fn find(
    graph: &Graph,
    proto: &GraphProto,
    wanted: Option<&str>,
    loss: Loss,
    opset: i64,
) -> Result<Subject> {
    let (name, ty) = output(graph, wanted)?;
    let at = |diagnostic: Diagnostic| diagnostic.within(format!("output {}", quoted(&name)));
    let ty = named(graph, of_numbers(&name, &ty).map_err(at)?);
    let made = proto.node.iter().find(|node| node.output.first() == Some(&name));
    let made = made.filter(|node| canonical(node.domain()).is_empty());
    let made = made.map(|node| (node.op_type(), node));
    let mut subject = Subject { class_axis: 1, ty, name: name.clone() };
    match (loss, made) {
        (Loss::Bce, Some(("Sigmoid", node))) => subject.name.clone_from(&node.input[0]),
        (Loss::Bce | Loss::Mse | Loss::Mae | Loss::Huber, _) => return Ok(subject),
        (Loss::Nll, Some(("Softmax", _))) => {
            let message = "`nll` takes logarithms of probabilities, but this is a `Softmax`";
            let help = "say `--loss cross-entropy`, which takes the logarithm, too";
            return Err(at(Diagnostic::new(Code::BadOption, message).help(help)));
        }
        (_, Some(("Softmax" | "LogSoftmax", node))) => {
            of_softmax(&mut subject, node, loss, opset).map_err(at)?;
        }
        (Loss::CrossEntropy | Loss::Nll, _) => {}
    }
    of_classes(&subject, loss).map_err(at)?;
    Ok(subject)
}

/// Returns the name and type of the output.
fn output(graph: &Graph, wanted: Option<&str>) -> Result<(String, Type)> {
    let ids = &graph[graph.body].outputs;
    let types = ids.iter().map(|&id| graph[id].ty.clone());
    let mut outputs: Vec<(String, Type)> = graph.info.outputs.iter().cloned().zip(types).collect();
    let names: Vec<String> = outputs.iter().map(|(name, _)| quoted(name)).collect();
    let found = match wanted {
        Some(wanted) => outputs.iter().position(|(name, _)| name == wanted),
        None if outputs.len() == 1 => Some(0),
        None => None,
    };
    let message = || match wanted {
        Some(wanted) => format!("the model has no output {}", quoted(wanted)),
        None => format!("the model has {} outputs", names.len()),
    };
    let found = found.ok_or_else(|| {
        Diagnostic::new(Code::BadOption, message())
            .note(format!("its outputs: {}", names.join(", ")))
            .help("say of which the loss is: `--output NAME`")
    })?;
    Ok(outputs.swap_remove(found))
}

fn of_numbers(name: &str, ty: &Type) -> Result<TensorType> {
    match ty {
        Type::Tensor(tensor) if F32_AND_F64.contains(&tensor.dtype) => Ok(tensor.clone()),
        Type::Unranked(_) | Type::Unknown => {
            let message = format!("the number of axes of {} is not known", quoted(name));
            Err(Diagnostic::new(Code::UnknownShape, message))
        }
        _ => {
            let message = format!("{} is {ty}, but a loss is of float or double", quoted(name));
            let help = "choose another with `--output NAME`, or convert the model to float";
            Err(Diagnostic::new(Code::BadOption, message).help(help))
        }
    }
}

/// Returns the type with the model's names of dimensions.
fn named(graph: &Graph, ty: TensorType) -> TensorType {
    let called = |dim: &Dim| {
        let size = dim.as_symbol().and_then(|symbol| graph.symbols.get(symbol));
        size.map_or_else(|| dim.clone(), |size| Dim::symbol(&size.label))
    };
    TensorType { shape: ty.shape.iter().map(called).collect(), ..ty }
}

/// Replaces the target by the input of the `Softmax` that computes it, and takes the class axis
/// from it.
fn of_softmax(subject: &mut Subject, node: &NodeProto, loss: Loss, opset: i64) -> Result {
    // Before this version, the axes from `axis` on were treated as one.
    const ALONG_ONE_AXIS: i64 = 13;
    let rank = subject.ty.rank() as i64;
    let default = if opset < ALONG_ONE_AXIS { 1 } else { -1 };
    let said = node.attribute.iter().find(|attribute| attribute.name() == "axis");
    let axis = said.and_then(|attribute| attribute.i).unwrap_or(default);
    let axis = if axis < 0 { axis + rank } else { axis };
    if !(0..rank).contains(&axis) {
        return Ok(());
    }
    let axis = axis as usize;
    let last = if opset < ALONG_ONE_AXIS { rank as usize } else { axis + 1 };
    let mut wide = (axis..last).filter(|&i| subject.ty.shape[i].known() != Some(1));
    let class_axis = wide.next().unwrap_or(axis);
    if wide.next().is_some() {
        let (op, name) = (node.op_type(), loss.word());
        let message =
            format!("the `{op}` is over several axes, but `{name}` wants classes along one");
        let help = format!(
            "convert the model to version {ALONG_ONE_AXIS} of ONNX's operators or newer, or let it \
             give samples and classes"
        );
        return Err(Diagnostic::new(Code::BadOption, message).help(help));
    }
    subject.class_axis = class_axis;
    if loss == Loss::CrossEntropy {
        subject.name.clone_from(&node.input[0]);
    }
    Ok(())
}

fn of_classes(subject: &Subject, loss: Loss) -> Result {
    if !loss.is_of_classes() {
        return Ok(());
    }
    let wants = |what: String, help: &str| {
        let message = format!("`{}` wants samples and classes, but {what}", loss.word());
        Err(Diagnostic::new(Code::BadOption, message).help(help))
    };
    let ty = &subject.ty;
    let Some(classes) = ty.shape.get(subject.class_axis).filter(|_| ty.rank() > 1) else {
        let other = "for numbers say `--loss mse`, for yes or no `--loss bce`";
        return wants(format!("this is {ty}"), other);
    };
    if classes.known() == Some(1) {
        return wants(format!("this is {ty}, with one class"), "for yes or no say `--loss bce`");
    }
    Ok(())
}
