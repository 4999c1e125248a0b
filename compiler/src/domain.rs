//! The names of operator sets. ONNX's own has two: `ai.onnx`, and the empty string.

/// The one name by which sets are compared: ONNX's own is the empty string.
pub fn canonical(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The name for people: ONNX's own is `ai.onnx`.
pub fn shown(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}
