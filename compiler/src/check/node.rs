//! Nodes: operator, domain, version, and the numbers of inputs and outputs.

use super::{
    attribute,
    attribute_types::kind_text,
    context::{Context, Place},
    metadata::metadata,
    opsets::Import,
    scope::Scope,
    signature::{self, Form, Parameter, Times},
    unit::Unit,
};
use crate::{
    diag::{Code, Diagnostic, counted, quoted},
    domain::{assumed_version, canonical, shown},
    ident,
};
use onnxc_proto::{FunctionProto, NodeProto};
use std::collections::HashSet;

/// Checks a node except for the names that it uses and defines.
pub(super) fn node<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    node: &'p NodeProto,
    scope: &Scope<'_, 'p>,
) {
    metadata(cx, &node.metadata_props);
    devices(cx, unit, node);
    attribute::attributes(cx, unit, node, scope);
    if node.op_type().is_empty() {
        return cx.fault(Code::MissingField, "the node has no operator: `op_type` is missing");
    }
    if node.input.is_empty() && node.output.is_empty() {
        return cx.fault(Code::EmptyNode, "the node has neither inputs nor outputs");
    }
    let function = unit.model.functions.find(node);
    match (unit.opsets.version(node.domain()), function) {
        (Import::Version(_), Some(function)) => call(cx, node, function),
        (Import::Version(version), None) => operator(cx, node, version),
        // The node cannot be checked, and the reason is reported already.
        (Import::Unknown, _) => cx.mark(),
        (Import::Missing, _) => not_imported(cx, node, function.is_none()),
    }
}

/// Reports a node of an operator set that is not imported. Checks it if its version is clear.
fn not_imported(cx: &mut Context<'_>, node: &NodeProto, is_operator: bool) {
    let domain = canonical(node.domain());
    let is_in_model = cx.in_function().is_none();
    let importer = if is_in_model { "model" } else { "function" };
    let shown = quoted(shown(domain));
    let message = format!("the {importer} does not import the operator set {shown}");
    let help = "add it to `opset_import`, with the version that the node is written for";
    let assumed = assumed_version(domain).filter(|_| is_operator && is_in_model);
    let Some(version) = assumed else { return cx.fault_with(Code::UnknownDomain, message, help) };
    let warning = Diagnostic::warning(Code::UnknownDomain, message);
    let warning = warning.note(format!("onnxc assumes version {version}, as ONNX Runtime does"));
    cx.report(warning.help(help));
    operator(cx, node, version);
}

/// Checks a call of a function of the model.
fn call(cx: &mut Context<'_>, node: &NodeProto, function: &FunctionProto) {
    let sides = [
        ("input", node.input.len(), function.input.len()),
        ("output", node.output.len(), function.output.len()),
    ];
    for (what, given, known) in sides {
        if given > known {
            let given = counted(given, what);
            let message = format!("the node has {given}, but the function knows {known}");
            cx.fault(Code::BadArity, message);
        }
    }
}

fn operator(cx: &mut Context<'_>, node: &NodeProto, version: i64) {
    let domain = canonical(node.domain());
    let name = node.op_type();
    if signature::is_experiment(domain, name) {
        return;
    }
    let Some((since, signature)) = signature::find(domain, name, version) else {
        if signature::is_known(domain) {
            unknown(cx, domain, name, version);
        }
        return;
    };
    let Some(form) = &signature.form else { return removed(cx, domain, name, since) };
    let note = |diagnostic: Diagnostic| {
        diagnostic.note(format!("version {since} of the operator: {}", signature.text(name)))
    };
    let sides = [
        ("input", node.input.as_slice(), &form.inputs),
        ("output", node.output.as_slice(), &form.outputs),
    ];
    for (what, given, known) in sides {
        if let Some(message) = arity(what, given, known) {
            cx.report(note(Diagnostic::new(Code::BadArity, message)));
        }
    }
    self::attributes(cx, node, form, version);
}

/// Returns the error in the number of inputs or outputs.
fn arity(what: &str, given: &[String], known: &[Parameter]) -> Option<String> {
    let (least, most) = signature::arity(known);
    let wanted = match most {
        Some(most) if most == least => format!("{least}"),
        Some(most) => format!("{least} to {most}"),
        None => format!("{least} or more"),
    };
    if given.len() < least || most.is_some_and(|most| given.len() > most) {
        let given = counted(given.len(), what);
        return Some(format!("the node has {given}, but the operator {wanted}"));
    }
    let left_out = given
        .iter()
        .zip(known)
        .enumerate()
        .find(|(_, (name, parameter))| name.is_empty() && parameter.times == Times::Once);
    let (i, (_, parameter)) = left_out?;
    Some(format!("{what} {i} (`{}`) is left out, but it is not optional", parameter.name))
}

fn attributes(cx: &mut Context<'_>, node: &NodeProto, form: &Form, version: i64) {
    let note = |diagnostic: Diagnostic| diagnostic.note(format!("operator set {version}"));
    let mut given = HashSet::new();
    for proto in node.attribute.iter().filter(|proto| given.insert(proto.name())) {
        let name = proto.name();
        // ONNX reserves names with two leading underscores for tools.
        if name.is_empty() || name.starts_with("__") {
            continue;
        }
        let Some(known) = form.attributes.iter().find(|known| known.name == name) else {
            let message = format!("{} is not an attribute of this operator", quoted(name));
            let names: Vec<&str> = form.attributes.iter().map(|known| known.name).collect();
            let all = if names.is_empty() { "none".into() } else { names.join(", ") };
            let mut diagnostic = Diagnostic::new(Code::UnknownAttribute, message);
            let near = ident::nearest(name, names);
            diagnostic.help = near.map(|near| format!("did you mean {}?", quoted(near)));
            cx.report(note(diagnostic.note(format!("its attributes: {all}"))));
            continue;
        };
        let found = attribute::kind(proto);
        if attribute::is_sound(proto) && found != known.kind {
            let names = [known.kind, found].map(kind_text);
            let message = format!("{} must be {}, but is {}", quoted(name), names[0], names[1]);
            cx.report(note(Diagnostic::new(Code::AttributeType, message)));
        }
    }
    let required = form.attributes.iter().filter(|known| known.is_required);
    for known in required.filter(|known| !given.contains(known.name)) {
        let message = format!("the attribute `{}` is missing", known.name);
        cx.report(note(Diagnostic::new(Code::MissingAttribute, message)));
    }
}

fn unknown(cx: &mut Context<'_>, domain: &str, name: &str, version: i64) {
    let message = format!(
        "there is no operator {} in version {version} of the operator set {}",
        quoted(name),
        quoted(shown(domain))
    );
    let diagnostic = Diagnostic::new(Code::UnknownOperator, message);
    cx.report(if let Some(first) = signature::first_version(domain, name) {
        diagnostic.help(format!("it exists from version {first} on: import that, or a newer one"))
    } else if let Some(other) = signature::domain_of(name) {
        diagnostic.help(format!(
            "the operator set {} has it: name it as the domain",
            quoted(shown(other))
        ))
    } else if let Some(near) = cx.keeps_more().then(|| signature::nearest(domain, name)).flatten() {
        diagnostic.help(format!("did you mean `{near}`?"))
    } else {
        diagnostic
            .help("custom operators belong into a domain of their own, or a function of the model")
    });
}

fn removed(cx: &mut Context<'_>, domain: &str, name: &str, since: i64) {
    const SUCCESSORS: &[(&str, &str)] = &[
        ("GroupNormalization", "import version 21, which has a scale for each channel"),
        ("Scatter", "use `ScatterElements`"),
        ("TreeEnsembleClassifier", "use `TreeEnsemble`"),
        ("TreeEnsembleRegressor", "use `TreeEnsemble`"),
        ("Upsample", "use `Resize`"),
    ];
    let message = format!(
        "the operator {} was removed in version {since} of the operator set {}",
        quoted(name),
        quoted(shown(domain))
    );
    let diagnostic = match name {
        // The version that removed it is the one that had added it.
        "GroupNormalization" => Diagnostic::warning(Code::Deprecated, message).note(
            "onnxc reads the scale and the bias as they were meant, one number for each group",
        ),
        _ => Diagnostic::new(Code::Deprecated, message),
    };
    let successor = SUCCESSORS.iter().find(|(removed, _)| *removed == name);
    cx.report(match successor {
        Some((_, help)) => diagnostic.help(*help),
        None => diagnostic,
    });
}

/// Checks the distribution of a node over devices.
fn devices(cx: &mut Context<'_>, unit: Unit<'_, '_>, node: &NodeProto) {
    for (i, configuration) in node.device_configurations.iter().enumerate() {
        cx.within(Place::Item("device configuration", i), |cx| {
            let name = configuration.configuration_id();
            if !unit.model.configurations.contains(name) {
                let message = format!("the model has no configuration {}", quoted(name));
                cx.fault(Code::DeviceConfiguration, message);
            }
            for spec in &configuration.sharding_spec {
                let name = spec.tensor_name();
                let mut own = node.input.iter().chain(&node.output);
                if name.is_empty() || !own.any(|own| own == name) {
                    let message = format!("{} is no input or output of the node", quoted(name));
                    cx.fault(Code::DeviceConfiguration, message);
                }
            }
        });
    }
}
