//! The operator sets that a model or a function imports.

use super::context::Context;
use crate::{
    diag::{Code, quoted},
    domain::{canonical, shown},
};
use onnxc_proto::OperatorSetIdProto;
use std::collections::{BTreeMap, BTreeSet};

/// The versions of the operator sets that nodes are bound to. `ai.onnx` is written as nothing.
#[derive(Default)]
pub(super) struct Opsets {
    pub versions: BTreeMap<String, i64>,
    /// What was found at fault, so that nodes of these domains cannot be judged.
    pub faulty: BTreeSet<String>,
    /// Whether so little is known that no node can be judged.
    pub unknown: bool,
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
