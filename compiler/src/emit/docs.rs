//! What a person reads about a generated module.

use super::{ArenaIn, Style, method::Face};
use crate::{
    domain,
    dtype::DType,
    plan::{Place, Plan, Port, State, memory::operands},
    tensor::Tensor,
};
use proc_macro2::TokenStream;
use quote::quote;
use std::collections::BTreeSet;

/// The comment at the head of the file.
pub fn head(plan: &Plan, style: &Style) -> TokenStream {
    let info = &plan.info;
    let opsets =
        info.opsets.iter().map(|(name, version)| format!("{} {version}", domain::shown(name)));
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
    text.extend(plan.inputs.iter().map(|port| row("input", port, &default(plan, port))));
    text.extend(plan.outputs.iter().map(|port| row("output", port, "")));
    text.extend(plan.states.iter().map(|state| match plan.learns {
        true => row("variable", &state.found, ""),
        false => state_row(plan, state),
    }));
    text.push(String::new());
    text.push(format!("- Parameters: {}", parameters(plan)));
    text.push(format!("- Weights: {} bytes", plan.weight_bytes));
    text.push(format!("- Arena: {} bytes", plan.arena_bytes));
    if plan.macs > 0 {
        text.push(format!("- Multiply-adds: {}", plan.macs));
    }
    text.extend(again(plan).map(|again| format!("- {again}")));
    text.extend(super::custom::signatures(plan).into_iter().map(|line| format!("- {line}")));
    for (key, value) in &plan.info.metadata {
        text.push(format!("- {}: {}", plain(key), plain(value)));
    }
    lines(&text)
}

/// The documentation of the method that runs a plan.
pub fn method(face: &Face<'_>) -> Vec<String> {
    let plan = face.plan;
    if face.method == "infer" {
        return vec![match face.arena {
            ArenaIn::Caller => "Runs the model in an arena of at least `PEAK_ARENA_BYTES`.".into(),
            ArenaIn::Struct | ArenaIn::Heap => "Runs the model.".into(),
        }];
    }
    let name = &plan.info.name;
    let what = if name.is_empty() { String::new() } else { format!(" `{}`", code(name)) };
    let mut text = vec![format!("Runs the algorithm{what} once, which changes the variables.")];
    if !plan.inputs.is_empty() || !plan.outputs.is_empty() {
        text.extend(["", "| | name | type |", "|---|---|---|"].map(String::from));
        text.extend(plan.inputs.iter().map(|port| row("input", port, &default(plan, port))));
        text.extend(plan.outputs.iter().map(|port| row("output", port, "")));
    }
    text.extend(again(plan).into_iter().flat_map(|again| [String::new(), again + "."]));
    text
}

/// What is computed again, and what it costs.
fn again(plan: &Plan) -> Option<String> {
    let (calls, operations) = plan.computed_again()?;
    Some(format!("Computed again to need less memory: {calls} calls, {operations} operations"))
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

fn row(kind: &str, port: &Port, more: &str) -> String {
    let doc = if port.doc.is_empty() { String::new() } else { format!(" {}", plain(&port.doc)) };
    let (name, ty) = (cell(&code(&port.name)), cell(&shape(port)));
    format!("| {kind} | `{name}` | `{ty}`{more}{doc} |")
}

/// What an input is where the caller leaves it out.
fn default(plan: &Plan, port: &Port) -> String {
    plan.initial(port).map_or(String::new(), |tensor| format!("; by default {}", elements(tensor)))
}

fn state_row(plan: &Plan, state: &State) -> String {
    let State { found, next, .. } = state;
    let first = plan.initial(found).map_or("zeros".into(), elements);
    let (past, present) = (cell(&code(&found.name)), cell(&code(&next.name)));
    format!("| state | `{past}` → `{present}` | `{}`; at first {first} |", cell(&shape(found)))
}

/// The elements of a constant, where they are few.
fn elements(tensor: &Tensor) -> String {
    const MANY: usize = 8;
    let text = match (tensor.strings(), tensor.ints(), tensor.floats()) {
        _ if tensor.len() > MANY => return "as in the model".into(),
        (Some(strings), ..) => format!("{strings:?}"),
        (_, Some(ints), _) if tensor.dtype == DType::Bool => {
            format!("{:?}", ints.iter().map(|&flag| flag != 0).collect::<Vec<_>>())
        }
        (_, Some(ints), _) => format!("{ints:?}"),
        (.., Some(floats)) => format!("{floats:?}"),
        (None, None, None) => return "as in the model".into(),
    };
    let scalar = || text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let text = if tensor.shape.is_empty() { scalar().unwrap_or(&text) } else { &text };
    format!("`{}`", cell(&code(text)))
}

/// Text in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
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
    weights.sum::<usize>() + learned(plan)
}

/// How many elements the variables have that a plan reads.
fn learned(plan: &Plan) -> usize {
    let mut read = BTreeSet::new();
    operands(&plan.steps, &mut |operand| read.extend(plan.variable(operand.buffer)));
    let lens = read.into_iter().map(|variable| plan.states[variable].found.operand.len.known());
    lens.flatten().filter_map(|len| usize::try_from(len).ok()).sum()
}

/// Text of the model on one line, without characters that change how text reads.
pub fn line(text: &str) -> String {
    crate::diag::quoted(text).trim_matches('`').to_owned()
}

/// Text of the model between backticks.
pub fn code(text: &str) -> String {
    match line(text).replace('`', "'") {
        // Nothing between backticks is two backticks.
        text if text.is_empty() => " ".into(),
        text => text,
    }
}

/// Text of the model that rustdoc shows as it is: no markup, no link.
fn plain(text: &str) -> String {
    let line = line(text);
    let line = line.trim();
    let mut escaped = String::new();
    let mut is_number = true;
    for (i, c) in line.char_indices() {
        let markup =
            matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '&' | '~' | '|');
        // A list, or a line below a heading.
        let at_start =
            i == 0 && matches!(c, '-' | '+' | '=') || is_number && matches!(c, '.' | ')');
        // An address would be a link.
        let address = c == ':' && line[i..].starts_with("://");
        if markup || at_start || address {
            escaped.push('\\');
        }
        escaped.push(c);
        is_number &= c.is_ascii_digit();
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_model_is_no_markup() {
        for (text, shown) in [
            ("a *b* [c](d) <e>", "a \\*b\\* \\[c\\](d) \\<e\\>"),
            ("    let x = 1;", "let x = 1;"),
            ("- 1. item", "\\- 1. item"),
            ("12. item", "12\\. item"),
            ("see https://a.b/c", "see https\\://a.b/c"),
            ("===", "\\==="),
        ] {
            assert_eq!(plain(text), shown);
        }
        assert_eq!((code("a`b"), code("")), ("a'b".into(), " ".into()));
    }
}
