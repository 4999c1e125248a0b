//! The nodes that compute a loss.

use super::{graph_builder::Draft, loss::Loss, loss_target::Subject};
use crate::{
    choice::Choice,
    diag::{Code, Diagnostic, Result, quoted},
    dim::Dim,
    dtype::DType,
    import::types,
    ir::Attribute,
    tensor::Tensor,
    ty::Type,
};
use std::collections::BTreeSet;

/// The first version of the main operator set with classification losses.
const LOSSES_SINCE: i64 = 12;

impl Loss {
    /// Returns the type of the label, with the dimension names in `declared`.
    fn label(
        self,
        subject: &Subject,
        declared: &BTreeSet<String>,
    ) -> Option<onnxc_proto::TypeProto> {
        let mut shape = subject.ty.shape.clone();
        let dtype = if self.is_of_classes() {
            shape.remove(subject.class_axis);
            DType::I64
        } else {
            subject.ty.dtype
        };
        let named = |dim: &Dim| {
            let name = dim.as_symbol()?.to_string();
            declared.contains(&name).then_some(name)
        };
        types::proto(&Type::tensor(dtype, shape), &named)
    }
}

/// The values that a loss adds.
pub struct Written {
    /// The label.
    pub label: String,
    /// The loss.
    pub loss: String,
}

/// Writes the loss of an output; `declared` are the names of sizes that the model's inputs have.
///
/// # Errors
///
/// Returns an error if the operator set is too old for the loss, and the number of classes is
/// unknown.
pub fn write(
    draft: &mut Draft,
    loss: Loss,
    subject: &Subject,
    declared: &BTreeSet<String>,
    opset: i64,
) -> Result<Written> {
    let label = draft.input("label", loss.label(subject, declared));
    let (y, t) = (subject.name.as_str(), label.as_str());
    let loss = match loss {
        Loss::Mse => {
            let error = draft.node("Sub", &[y, t], "error");
            let square = draft.node("Mul", &[&error, &error], "square");
            mean(draft, &square)
        }
        Loss::Mae => {
            let error = draft.node("Sub", &[y, t], "error");
            let size = draft.node("Abs", &[&error], "size");
            mean(draft, &size)
        }
        Loss::Huber => huber(draft, subject, t),
        Loss::Bce => {
            // -t log σ(y) - (1 - t) log (1 - σ(y)), which is accurate for large y, too.
            let soft = draft.node("Softplus", &[y], "softplus");
            let hit = draft.node("Mul", &[y, t], "hit");
            let each = draft.node("Sub", &[&soft, &hit], "each");
            mean(draft, &each)
        }
        Loss::CrossEntropy | Loss::Nll if opset < LOSSES_SINCE => {
            of_classes_by_parts(draft, loss, subject, t, opset)?
        }
        Loss::CrossEntropy | Loss::Nll => {
            let y = classes_second(draft, subject);
            let op = match loss {
                Loss::Nll => "NegativeLogLikelihoodLoss",
                _ => "SoftmaxCrossEntropyLoss",
            };
            let mean = vec![("reduction", Attribute::from("mean"))];
            draft.node_with(op, &[&y, t], "loss", mean)
        }
    };
    draft.give(&loss, subject.ty.dtype, &[]);
    Ok(Written { label, loss })
}

fn mean(draft: &mut Draft, each: &str) -> String {
    draft.node_with("ReduceMean", &[each], "loss", vec![("keepdims", Attribute::Int(0))])
}

/// With `a` the absolute difference and `m = min(a, 1)`: `m (a - m / 2)`.
fn huber(draft: &mut Draft, subject: &Subject, label: &str) -> String {
    let dtype = subject.ty.dtype;
    let number = |value| Tensor::from_number(dtype, value).expect("it is a floating-point type");
    let (delta, half) = (draft.constant("delta", number(1.0)), draft.constant("half", number(0.5)));
    let error = draft.node("Sub", &[&subject.name, label], "error");
    let size = draft.node("Abs", &[&error], "size");
    let above = draft.node("Sub", &[&size, &delta], "above");
    let above = draft.node("Relu", &[&above], "excess");
    let small = draft.node("Sub", &[&size, &above], "clipped");
    let part = draft.node("Mul", &[&half, &small], "half_clipped");
    let rest = draft.node("Sub", &[&size, &part], "rest");
    let each = draft.node("Mul", &[&small, &rest], "each");
    mean(draft, &each)
}

/// Returns the output with the classes along its second axis, as ONNX requires.
fn classes_second(draft: &mut Draft, subject: &Subject) -> String {
    let mut order: Vec<i64> = (0..subject.ty.rank() as i64).collect();
    let axis = order.remove(subject.class_axis);
    order.insert(1, axis);
    transposed(draft, subject, order)
}

fn transposed(draft: &mut Draft, subject: &Subject, order: Vec<i64>) -> String {
    if order.is_sorted() {
        return subject.name.clone();
    }
    draft.node_with(
        "Transpose",
        &[&subject.name],
        "classes",
        vec![("perm", Attribute::Ints(order))],
    )
}

/// The loss in operators of older sets: the mean of the output times a one-hot table, times minus
/// the number of classes.
fn of_classes_by_parts(
    draft: &mut Draft,
    loss: Loss,
    subject: &Subject,
    label: &str,
    opset: i64,
) -> Result<String> {
    let classes = subject.ty.shape[subject.class_axis].known().ok_or_else(|| {
        let message = format!(
            "the number of classes of {} is not known, and version {opset} of ONNX's operators \
             has no `{}`",
            quoted(&subject.name),
            loss.word()
        );
        Diagnostic::new(Code::Untrainable, message)
            .help(format!("convert the model to version {LOSSES_SINCE} or newer"))
    })?;
    let last = subject.ty.rank() as i64 - 1;
    let mut order: Vec<i64> = (0..=last).collect();
    let axis = order.remove(subject.class_axis);
    order.push(axis);
    let mut y = transposed(draft, subject, order);
    if loss == Loss::CrossEntropy {
        y = draft.node_with(
            "LogSoftmax",
            &[&y],
            "log_softmax",
            vec![("axis", Attribute::Int(last))],
        );
    }
    let dtype = subject.ty.dtype;
    let numbers = |shape, values: &[f64]| {
        Tensor::from_numbers(dtype, shape, values).expect("it is a floating-point type")
    };
    let depth = draft.constant("depth", Tensor::from_ints(&[classes]));
    let values = draft.constant("off_on", numbers(vec![2], &[0.0, 1.0]));
    let axis = vec![("axis", Attribute::Int(-1))];
    let hot = draft.node_with("OneHot", &[label, &depth, &values], "one_hot", axis);
    let each = draft.node("Mul", &[&hot, &y], "each");
    let keep = vec![("keepdims", Attribute::Int(0))];
    let mean = draft.node_with("ReduceMean", &[&each], "mean", keep);
    let scale = draft.constant("minus_classes", numbers(Vec::new(), &[-(classes as f64)]));
    Ok(draft.node("Mul", &[&scale, &mean], "loss"))
}
