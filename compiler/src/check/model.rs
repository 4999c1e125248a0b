//! The model as a whole: the version of its format, operator sets, metadata, devices.

use super::{
    context::{Context, Place},
    function::{self, Functions},
    graph::{self, Unit},
    training,
};
use crate::{
    diag::{Code, quoted},
    domain::{canonical, shown},
};
use onnxc_proto::{
    DeviceConfigurationProto, ModelProto, OperatorSetIdProto, StringStringEntryProto,
    TrainingInfoProto, Version,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The versions of the operator sets that nodes are bound to. `ai.onnx` is written as nothing.
#[derive(Default)]
pub(super) struct Opsets {
    versions: BTreeMap<String, i64>,
    /// What was found at fault, so that nodes of these domains cannot be judged.
    faulty: BTreeSet<String>,
    /// Whether so little is known that no node can be judged.
    unknown: bool,
}

/// What the version of a domain is.
pub(super) enum Import {
    /// The domain is imported in that version.
    Version(i64),
    /// It is not imported.
    Missing,
    /// It cannot be said; why is a diagnostic already.
    Unknown,
}

/// What all of a model's nodes are checked with.
pub(super) struct Model<'p> {
    /// The version of the file format.
    pub ir_version: i64,
    /// The model's operator sets.
    pub opsets: Opsets,
    /// The names of the devices' configurations.
    pub configurations: HashSet<&'p str>,
    /// The model's functions.
    pub functions: Functions<'p>,
    /// How to train it.
    pub training: &'p [TrainingInfoProto],
}

impl Model<'_> {
    /// That of functions that belong to no model.
    pub fn none() -> Self {
        Model {
            ir_version: i64::from(Version::IrVersion as i32),
            opsets: Opsets::default(),
            configurations: HashSet::new(),
            functions: Functions::default(),
            training: &[],
        }
    }
}

/// Checks a model.
pub(super) fn model<'p>(cx: &mut Context<'p>, proto: &'p ModelProto) {
    ir_version(cx, proto.ir_version);
    let model = Model {
        ir_version: proto.ir_version(),
        opsets: opsets(cx, proto),
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

fn ir_version(cx: &mut Context<'_>, version: Option<i64>) {
    let newest = i64::from(Version::IrVersion as i32);
    match version {
        None | Some(0) => {
            let help =
                format!("set it to the version that the model was written for, up to {newest}");
            cx.fault_with(Code::IrVersion, "`ir_version` is missing", &help);
        }
        Some(version) if version < 0 || version > newest => {
            let message =
                format!("`ir_version` is {version}, but the newest version known is {newest}");
            cx.fault_with(Code::IrVersion, message, "save the model for an older version");
        }
        Some(_) => {}
    }
}

fn opsets(cx: &mut Context<'_>, proto: &ModelProto) -> Opsets {
    let is_old = proto.ir_version() < 3;
    if proto.opset_import.is_empty() {
        if !is_old {
            let help = "add the versions of the operator sets that the nodes are written for";
            cx.fault_with(Code::OpsetImport, "the model imports no operator set", help);
        } else if proto.ir_version() > 0 {
            // Files of before operator sets had versions.
            return Opsets { versions: [(String::new(), 1)].into(), ..Opsets::default() };
        }
        return Opsets { unknown: true, ..Opsets::default() };
    }
    if is_old && proto.ir_version() > 0 {
        let message = format!(
            "`opset_import` is not of IR version {}, in which operator sets have no version",
            proto.ir_version()
        );
        cx.fault_with(Code::OpsetImport, message, "set `ir_version` to 3 or newer");
    }
    imports(cx, &proto.opset_import)
}

/// The operator sets that a model or a function imports.
pub(super) fn imports(cx: &mut Context<'_>, list: &[OperatorSetIdProto]) -> Opsets {
    let mut opsets = Opsets::default();
    for import in list {
        let domain = canonical(import.domain());
        let shown = quoted(shown(domain));
        let version = import.version();
        if i32::try_from(version).is_err() || version < 1 {
            let message = format!("the operator set {shown} is imported in version {version}");
            cx.fault_with(Code::OpsetImport, message, "versions are whole numbers from 1 on");
            opsets.faulty.insert(domain.to_owned());
        }
        let before = opsets.versions.insert(domain.to_owned(), version);
        // Exporters repeat themselves, but they must not contradict themselves.
        if let Some(before) = before.filter(|&before| before != version) {
            let message =
                format!("the operator set {shown} is imported in versions {before} and {version}");
            let help = "keep the version that the nodes are written for";
            cx.fault_with(Code::ContradictingOpsets, message, help);
            opsets.faulty.insert(domain.to_owned());
        }
    }
    opsets
}

impl Opsets {
    /// The version of a domain.
    pub fn version(&self, domain: &str) -> Import {
        let domain = canonical(domain);
        if self.unknown || self.faulty.contains(domain) {
            return Import::Unknown;
        }
        self.versions.get(domain).map_or(Import::Missing, |&version| Import::Version(version))
    }

    /// The version of a domain, where it is imported and nothing is wrong with that.
    pub fn get(&self, domain: &str) -> Option<i64> {
        match self.version(domain) {
            Import::Version(version) => Some(version),
            Import::Missing | Import::Unknown => None,
        }
    }
}

/// Checks named text.
pub(super) fn metadata(cx: &mut Context<'_>, entries: &[StringStringEntryProto]) {
    let mut seen = HashSet::new();
    for entry in entries {
        if !seen.insert(entry.key()) {
            let message =
                format!("the key {} stands twice in `metadata_props`", quoted(entry.key()));
            cx.fault(Code::DuplicateKey, message);
        }
    }
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
