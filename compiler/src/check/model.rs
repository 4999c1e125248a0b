//! The model as a whole: format version, operator sets, metadata, devices.

use super::{
    context::{Context, Place},
    function, graph,
    metadata::metadata,
    opsets::{Opsets, imports},
    training,
    unit::{Model, Unit},
};
use crate::diag::{Code, Diagnostic, quoted};
use onnxc_proto::{DeviceConfigurationProto, ModelProto, Version};
use std::collections::HashSet;

/// Checks a model.
pub(super) fn model<'p>(cx: &mut Context<'p>, proto: &'p ModelProto) {
    let ir_version = ir_version(cx, proto.ir_version);
    let model = Model {
        ir_version,
        opsets: opsets(cx, proto, ir_version),
        configurations: configurations(cx, &proto.configuration),
        functions: function::functions(cx, &proto.functions),
        training: &proto.training_info,
    };
    metadata(cx, &proto.metadata_props);
    let Some(main) = &proto.graph else {
        return cx.fault(Code::NotAModel, "this is not an ONNX model: the file has no graph");
    };
    let unit = Unit { model: &model, opsets: &model.opsets };
    let scope = graph::main(cx, unit, main);
    for function in &proto.functions {
        function::function(cx, &model, function);
    }
    training::training(cx, unit, main, &scope);
}

/// Checks the version of the file format. Returns the version to check the model by, or 0 if that
/// is unknown.
fn ir_version(cx: &mut Context<'_>, version: Option<i64>) -> i64 {
    let newest = i64::from(Version::IrVersion as i32);
    let help = || format!("set it to the version that the model was written for, up to {newest}");
    match version {
        None => cx.fault_with(Code::IrVersion, "`ir_version` is missing", &help()),
        // Tools that fill in every field write 0 for a version that they do not know.
        Some(0) => {
            let warning = Diagnostic::warning(Code::IrVersion, "`ir_version` is 0");
            let warning = warning.note("onnxc reads the model as one of the newest version");
            cx.report(warning.help(help()));
            return newest;
        }
        Some(version) if version < 0 || version > newest => {
            let message =
                format!("`ir_version` is {version}, but the newest version known is {newest}");
            cx.fault_with(Code::IrVersion, message, "save the model for an older version");
        }
        Some(_) => {}
    }
    version.unwrap_or_default()
}

fn opsets(cx: &mut Context<'_>, proto: &ModelProto, ir_version: i64) -> Opsets {
    let is_old = ir_version < 3;
    if proto.opset_import.is_empty() {
        if !is_old {
            let help = "add the versions of the operator sets that the nodes are written for";
            cx.fault_with(Code::OpsetImport, "the model imports no operator set", help);
        } else if ir_version > 0 {
            // Files from before operator sets had versions.
            return Opsets { versions: [(String::new(), 1)].into(), ..Opsets::default() };
        }
        return Opsets { unknown: true, ..Opsets::default() };
    }
    if is_old && ir_version > 0 {
        let message = format!(
            "`opset_import` is not of IR version {ir_version}, in which operator sets have no \
             version"
        );
        cx.fault_with(Code::OpsetImport, message, "set `ir_version` to 3 or newer");
    }
    imports(cx, &proto.opset_import)
}

fn configurations<'p>(
    cx: &mut Context<'p>,
    list: &'p [DeviceConfigurationProto],
) -> HashSet<&'p str> {
    let mut names = HashSet::new();
    for (i, configuration) in list.iter().enumerate() {
        cx.within(Place::Item("configuration", i), |cx| {
            let name = configuration.name();
            let count = configuration.num_devices();
            if name.is_empty() {
                cx.fault(Code::DeviceConfiguration, "the configuration has no name");
            } else if !names.insert(name) {
                let message = format!("a second configuration is called {}", quoted(name));
                cx.fault(Code::DeviceConfiguration, message);
            }
            let named = configuration.device.len();
            if count < 1 {
                let message = format!("the configuration has {count} devices");
                cx.fault(Code::DeviceConfiguration, message);
            } else if named > 0 && usize::try_from(count) != Ok(named) {
                let message = format!("the configuration has {count} devices, but names {named}");
                cx.fault(Code::DeviceConfiguration, message);
            }
        });
    }
    names
}
