//! The operator sets that a model or a function imports.

use super::context::Context;
use crate::{
    diag::{Code, quoted},
    domain::{canonical, shown},
};
use onnxc_proto::OperatorSetIdProto;
use std::collections::{BTreeMap, BTreeSet};

/// The versions of the imported operator sets. `ai.onnx` is the empty string.
#[derive(Default)]
pub(super) struct Opsets {
    pub versions: BTreeMap<String, i64>,
    /// The domains whose import has an error, so that their nodes cannot be checked.
    pub faulty: BTreeSet<String>,
    /// Whether no node can be checked.
    pub unknown: bool,
}

/// The imported version of a domain.
pub(super) enum Import {
    /// The domain is imported in this version.
    Version(i64),
    /// The domain is not imported.
    Missing,
    /// The version is unknown because of an error that is reported already.
    Unknown,
}

/// Reads the operator sets that a model or a function imports.
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
        // Exporters repeat imports, which is harmless unless they contradict each other.
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
    /// Returns the version of a domain.
    pub fn version(&self, domain: &str) -> Import {
        let domain = canonical(domain);
        if self.unknown || self.faulty.contains(domain) {
            return Import::Unknown;
        }
        self.versions.get(domain).map_or(Import::Missing, |&version| Import::Version(version))
    }

    /// Returns the version of a domain that is imported without errors.
    pub fn get(&self, domain: &str) -> Option<i64> {
        match self.version(domain) {
            Import::Version(version) => Some(version),
            Import::Missing | Import::Unknown => None,
        }
    }
}
