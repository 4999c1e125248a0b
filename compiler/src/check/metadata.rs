//! Metadata: key–value pairs with distinct keys.

use super::context::Context;
use crate::diag::{Code, quoted};
use onnxc_proto::StringStringEntryProto;
use std::collections::HashSet;

/// Checks the entries of a `metadata_props` field.
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
