//! What a person reads about a generated module.

use super::Style;
use crate::plan::{Place, Plan, Port};
use proc_macro2::TokenStream;
use quote::quote;

/// The comment at the head of the file.
pub fn head(plan: &Plan, style: &Style) -> TokenStream {
    let info = &plan.info;
    let opsets = info.opsets.iter().map(|(name, version)| {
        format!("{} {version}", if name.is_empty() { "ai.onnx" } else { name })
    });
    let first = format!(
        "The model {}, compiled by onnxc {}.",
        line(&style.name),
        env!("CARGO_PKG_VERSION")
    );
    let from = [
        format!("ONNX IR version {}", info.ir_version),
        format!("operator sets: {}", line(&opsets.collect::<Vec<_>>().join(", "))),
        if info.producer.is_empty() {
            String::new()
        } else {
            format!("written by {}", line(&info.producer))
        },
    ];
    let from: Vec<String> = from.into_iter().filter(|text| !text.is_empty()).collect();
    let second = format!("{}.", from.join("; "));
    quote! {
        comment!(#first);
        comment!(#second);
        blank!();
    }
}

/// The documentation of the model's struct.
pub fn model(plan: &Plan, style: &Style) -> TokenStream {
    let mut text = vec![format!("The model `{}`.", code(&style.name))];
    if !plan.info.doc.trim().is_empty() {
        text.push(String::new());
        text.extend(plan.info.doc.lines().map(plain));
    }
    text.push(String::new());
    text.push("| | name | type |".into());
    text.push("|---|---|---|".into());
    text.extend(plan.inputs.iter().map(|port| row("input", port)));
    text.extend(plan.outputs.iter().map(|port| row("output", port)));
    text.push(String::new());
    text.push(format!("- Parameters: {}", parameters(plan)));
    text.push(format!("- Weights: {} bytes", plan.weight_bytes));
    text.push(format!("- Arena: {} bytes", plan.arena_bytes));
    if plan.macs > 0 {
        text.push(format!("- Multiply-adds: {}", plan.macs));
    }
    for (key, value) in &plan.info.metadata {
        text.push(format!("- {}: {}", plain(key), plain(value)));
    }
    lines(&text)
}

/// One doc comment a line.
pub fn lines(text: &[String]) -> TokenStream {
    let lines =
        text.iter().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    quote!(#(#[doc = #lines])*)
}

/// The documentation of an input or output, in one line.
pub fn port(port: &Port) -> TokenStream {
    let mut text = format!("`{}`: `{}`", code(&port.name), shape(port));
    if !port.doc.is_empty() {
        text.push_str(". ");
        text.push_str(&plain(&port.doc));
    }
    lines(&[text])
}

fn row(kind: &str, port: &Port) -> String {
    let doc = if port.doc.is_empty() { String::new() } else { format!(" {}", plain(&port.doc)) };
    format!("| {kind} | `{}` | `{}`{} |", code(&port.name), shape(port), doc.replace('|', "\\|"))
}

/// The type of a port, as ONNX's text writes it.
fn shape(port: &Port) -> String {
    port.ty.to_string()
}

fn parameters(plan: &Plan) -> usize {
    let weights = plan.buffers.iter().filter_map(|(_, buffer)| match &buffer.place {
        Place::Weight { parameters, .. } => Some(*parameters),
        _ => None,
    });
    weights.sum()
}

/// Text of the model on one line, without characters that change how text reads.
pub fn line(text: &str) -> String {
    crate::diag::quoted(text).trim_matches('`').to_owned()
}

/// Text of the model between backticks.
fn code(text: &str) -> String {
    line(text).replace('`', "'")
}

/// Text of the model that rustdoc shows as it is: no markup, no link.
fn plain(text: &str) -> String {
    let mut escaped = String::new();
    for c in line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' | '~' | '|') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
