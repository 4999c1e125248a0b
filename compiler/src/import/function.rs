//! Functions: those of a model, and the operators that ONNX defines by others. The body of a
//! function is written in place of the node that calls it.

use super::{
    build::{Builder, Opsets, Scope, name},
    text,
};
use crate::{
    diag::{Diagnostics, Result},
    ir::{Domain, ValueId},
    ops::Entry,
};
use onnxc_proto::{AttributeProto, FunctionProto, NodeProto, OperatorSetIdProto};
use std::{
    collections::{HashMap, HashSet},
    mem,
    rc::Rc,
};

/// What a call of a function settles for its body.
pub(super) struct Call {
    /// What stands in front of every name in the body.
    prefix: String,
    /// The attributes, with the defaults of those that the caller leaves out.
    attributes: HashMap<String, AttributeProto>,
    /// The inputs that the caller leaves out.
    pub absent: HashSet<String>,
    /// Whether the body is that of an operator, which knows nothing of the model's functions.
    pub is_operator: bool,
}

impl Scope<'_> {
    /// What a value or node of the body is called in the graph.
    pub fn label(&self, name: &str) -> String {
        let prefix = self.call.map_or("", |call| call.prefix.as_str());
        format!("{prefix}{name}")
    }

    /// The attributes of a node, with those of the function around it in place of references.
    pub fn resolved(&self, node: &NodeProto) -> Vec<AttributeProto> {
        let mut attributes = Vec::new();
        for attribute in &node.attribute {
            let reference = attribute.ref_attr_name();
            if reference.is_empty() {
                attributes.push(attribute.clone());
                continue;
            }
            // An attribute that the caller leaves out is left out in the body, too.
            if let Some(value) = self.call.and_then(|call| call.attributes.get(reference)) {
                attributes.push(AttributeProto { name: attribute.name.clone(), ..value.clone() });
            }
        }
        attributes
    }
}

impl Builder<'_> {
    /// The function that an operator stands for.
    pub(super) fn body_of(
        &mut self,
        entry: &Entry,
        body: &'static str,
    ) -> Result<Rc<FunctionProto>> {
        if let Some(function) = self.bodies.get(body) {
            return Ok(function.clone());
        }
        let function = Rc::new(operator(entry, body)?);
        self.bodies.insert(body, function.clone());
        Ok(function)
    }

    /// Writes the body of a function in place of the node that calls it.
    pub(super) fn call(
        &mut self,
        function: &FunctionProto,
        node: &NodeProto,
        inputs: Vec<Option<ValueId>>,
        given: Vec<AttributeProto>,
        outer: &mut Scope<'_>,
    ) -> std::result::Result<(), Diagnostics> {
        let key = (function.domain(), function.name(), function.overload());
        let known = self.functions.get(&key);
        let is_operator = !known.is_some_and(|known| std::ptr::eq(*known, function));
        let mut opsets: Opsets = outer.opsets.clone();
        for import in &function.opset_import {
            let name = if import.domain() == "ai.onnx" { "" } else { import.domain() };
            opsets.insert(name.to_owned(), import.version());
        }
        let attributes = function.attribute_proto.iter().chain(&given);
        let mut call = Call {
            prefix: format!("{}/", outer.label(name(node))),
            attributes: attributes.map(|a| (a.name().to_owned(), a.clone())).collect(),
            absent: HashSet::new(),
            is_operator,
        };
        let mut values = HashMap::new();
        let given = inputs.iter().copied().chain(std::iter::repeat(None));
        for (name, id) in function.input.iter().zip(given) {
            match id {
                Some(id) => drop(values.insert(name.clone(), id)),
                None => drop(call.absent.insert(name.clone())),
            }
        }
        let mut scope = Scope { region: outer.region, values, opsets: &opsets, call: Some(&call) };
        // What is wrong inside is located by the caller's node, too.
        let findings = mem::take(&mut self.findings);
        let result = self.deeper("functions call each other", |builder| {
            builder.nodes(&function.node, &mut scope);
        });
        let found = mem::replace(&mut self.findings, findings).finish();
        let results = function.output.iter().map(|name| scope.values.get(name).copied());
        self.give(node, results.collect(), &inputs, outer);
        result?;
        found
    }

    /// Takes what was made in place of a node for its outputs.
    fn give(
        &mut self,
        node: &NodeProto,
        results: Vec<Option<ValueId>>,
        inputs: &[Option<ValueId>],
        scope: &mut Scope<'_>,
    ) {
        for (name, value) in node.output.iter().zip(results) {
            let (Some(value), false) = (value, name.is_empty()) else { continue };
            if !inputs.contains(&Some(value)) {
                self.graph.rename(value, &scope.label(name));
            }
            self.define(name, value, scope);
        }
    }
}

/// The function that `entry` stands for, over the newest operators.
pub(super) fn operator(entry: &Entry, body: &str) -> Result<FunctionProto> {
    let mut function = text::function(&format!("{} {body}", entry.name))?;
    function.opset_import = [("", Domain::Onnx), ("ai.onnx.ml", Domain::Ml)]
        .map(|(name, domain)| OperatorSetIdProto {
            domain: Some(name.to_owned()),
            version: Some(domain.newest()),
        })
        .to_vec();
    Ok(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check,
        diag::Code,
        import::{Settings, model},
        ops::{How, entries},
    };
    use onnxc_proto::Bytes;

    fn graph(text: &str) -> std::result::Result<String, Diagnostics> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        Ok(model(bytes, &Settings::default())?.graph.to_string())
    }

    const CALLS: &str = r#"
        <ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2, 3] x, float[2, 3] w) => (float[6] a, float[3, 2] b) {
            [one] a = f.Flat<axis = 0>(x, w)
            b = f.Flat(x)
        }
        <domain: "f", opset_import: ["" : 21, "f" : 1]>
        Flat <axis: int = 2, perm> (v, bias) => (r) {
            s = f.Sum(v, bias)
            t = Flatten<axis: int = @axis>(s)
            r = Squeeze(t)
        }
        <domain: "f", opset_import: ["" : 21, "f" : 1]>
        Sum (v, bias) => (r) { r = Max(v, bias) }
    "#;

    #[test]
    fn a_call_becomes_the_body() {
        let found = graph(&CALLS.replace("=> (float[6] a, float[3, 2] b)", "=> (a, b)"));
        let found = found.map_err(|findings| findings.to_string()).expect("the model is valid");
        let lines: Vec<&str> = found.lines().map(str::trim).collect();
        for line in [
            "\"one/s\" = Max (x, w)",
            "\"one/t\" = Flatten <axis = 0> (\"one/s\")",
            "a = Squeeze (\"one/t\")",
            // What the caller leaves out is left out inside.
            "\"b/s\" = Max (x, \"\")",
            "\"b/t\" = Flatten <axis = 2> (\"b/s\")",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{found}");
        }
    }

    #[test]
    fn what_is_wrong_inside_is_located_by_its_caller() {
        let text = CALLS.replace("Max(v, bias)", "Max(v, nowhere)");
        let finding = graph(&text).expect_err("nothing defines a name").0.remove(0);
        assert_eq!(finding.code, Code::UndefinedValue);
        assert_eq!(finding.at.join(" › "), "function `f.Sum` › node `r` (Max), number 0");
        let text = CALLS.replace("(x, w)\n", "(x, w, x)\n");
        let finding = graph(&text).expect_err("there are two inputs").0.remove(0);
        assert_eq!(finding.code, Code::BadArity);
    }

    #[test]
    fn a_function_that_calls_itself_is_refused() {
        let text = CALLS.replace("Max(v, bias)", "f.Sum(v, bias)");
        let finding = graph(&text).expect_err("it has no end").0.remove(0);
        assert_eq!(finding.code, Code::RecursiveFunction);
    }

    #[test]
    fn functions_that_grow_beyond_all_bounds_are_refused() {
        let twice = |i: usize| {
            format!(
                "<domain: \"f\", opset_import: [\"f\" : 1]> F{i} (x) => (z) {{ y = f.F{0}(x) z = f.F{0}(y) }}",
                i + 1
            )
        };
        let last = "<domain: \"f\", opset_import: [\"\" : 21]> F40 (x) => (y) { y = Relu(x) }";
        let model =
            "<ir_version: 10, opset_import: [\"f\" : 1]> g (float[2] x) => (y) { y = f.F0(x) }";
        let functions: String = (0..40).map(twice).collect();
        let finding =
            graph(&format!("{model}{functions}{last}")).expect_err("it has 2^40 nodes").0.remove(0);
        assert_eq!(finding.code, Code::TooLarge);
    }

    #[test]
    fn every_body_is_a_valid_function() {
        for entry in entries() {
            if let How::Body(body) = entry.how {
                let function = operator(entry, body);
                let function = function.map_err(|finding| finding.to_string());
                let function = function.expect(entry.name);
                let found = check::function(&function).into_first();
                assert_eq!(found, Ok(()), "{}", entry.name);
            }
        }
    }
}
