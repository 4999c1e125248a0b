//! Inlines functions: those of a model, and the operators that ONNX defines as functions.

use super::{
    context::{Call, Given, GraphBuilder, Opsets, Scope, name},
    text,
};
use crate::{
    diag::Result,
    domain::canonical,
    ir::{Domain, ValueId},
    ops::{Entry, reshape::Identity},
};
use onnxc_proto::{FunctionProto, NodeProto, OperatorSetIdProto};
use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

impl<'p> GraphBuilder<'p> {
    /// The function of the model that a node calls, if it calls one.
    pub(super) fn called_function(&self, node: &NodeProto) -> Option<&'p FunctionProto> {
        self.functions.get(&(node.domain(), node.op_type(), node.overload())).copied()
    }

    /// The function that defines an operator, parsed once.
    pub(super) fn operator_body(&mut self, entry: &Entry, body: &str) -> Result<Rc<FunctionProto>> {
        if let Some(function) = self.bodies.get(body) {
            return Ok(function.clone());
        }
        let function = Rc::new(operator(entry, body)?);
        self.bodies.insert(body.to_owned(), function.clone());
        Ok(function)
    }

    /// Inlines a function in place of the node that calls it.
    pub(super) fn call(
        &mut self,
        function: &FunctionProto,
        node: &NodeProto,
        inputs: Vec<Option<ValueId>>,
        given: &[Given<'_>],
        outer: &mut Scope<'_>,
    ) -> Result {
        let key = (function.domain(), function.name(), function.overload());
        let known = self.functions.get(&key);
        let is_operator = !known.is_some_and(|known| std::ptr::eq(*known, function));
        let mut opsets: Opsets = outer.opsets.clone();
        for import in &function.opset_import {
            let name = canonical(import.domain());
            opsets.insert(name.to_owned(), import.version());
        }
        let defaults = function.attribute_proto.iter().map(Given::from);
        let mut call = Call {
            prefix: format!("{}/", outer.label(name(node))),
            attributes: defaults.chain(given.iter().copied()).map(|a| (a.name, a.value)).collect(),
            absent: HashSet::new(),
            is_operator,
        };
        let mut values: HashMap<String, ValueId> = HashMap::new();
        let given = inputs.iter().copied().chain(std::iter::repeat(None));
        for (name, id) in function.input.iter().zip(given) {
            let Some(id) = id else {
                call.absent.insert(name.clone());
                continue;
            };
            // A function may take the gradient by each of its parameters, so each needs a value of
            // its own.
            let again = !is_operator && values.values().any(|&other| other == id);
            let own = format!("{}{name}", call.prefix);
            let id = if again { self.graph.add(outer.region, &own, Identity, &[id])? } else { id };
            values.insert(name.clone(), id);
        }
        let mut scope = Scope {
            values: values.into(),
            call: Some(&call),
            ..Scope::empty(outer.region, &opsets)
        };
        let result = self.with_depth("functions call each other", |builder| {
            builder.nodes(&function.node, &mut scope);
        });
        let results = function.output.iter().map(|name| scope.values.get(name));
        self.define_results(node, results.collect(), &inputs, outer);
        result
    }

    /// The number of nodes of a function after its calls are inlined. Faulty functions count as 0,
    /// since they are never called. Recursive functions are among them.
    pub(super) fn extent(&mut self, function: &FunctionProto) -> usize {
        let key = std::ptr::from_ref(function);
        if let Some(&extent) = self.extents.get(&key) {
            return extent;
        }
        if self.checked.is_faulty(function) {
            return 0;
        }
        let extent = self.extent_of(&function.node);
        self.extents.insert(key, extent);
        extent
    }

    fn extent_of(&mut self, nodes: &[NodeProto]) -> usize {
        nodes.iter().fold(0, |sum: usize, node| {
            let called = self.called_function(node).map_or(0, |function| self.extent(function));
            let graphs = node.attribute.iter();
            let graphs = graphs.flat_map(|a| a.g.as_deref().into_iter().chain(&a.graphs));
            let inside = graphs.map(|graph| self.extent_of(&graph.node));
            inside.fold(sum.saturating_add(1), usize::saturating_add).saturating_add(called)
        })
    }

    /// Defines the outputs of a node as the results of its inlined function.
    fn define_results(
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

/// Parses the function that defines `entry`, over the newest operator sets.
pub(super) fn operator(entry: &Entry, body: &str) -> Result<FunctionProto> {
    let mut function = text::function(&format!("{} {body}", entry.name))?;
    let domains = [Domain::Onnx, Domain::Ml, Domain::Microsoft, Domain::Internal];
    function.opset_import = domains
        .map(|domain| OperatorSetIdProto {
            domain: Some(canonical(&domain.to_string()).to_owned()),
            version: Some(domain.newest()),
        })
        .to_vec();
    Ok(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Compiler, Options, check,
        diag::{Code, Diagnostics},
        ops::{Reading, entries},
    };
    use onnxc_proto::Bytes;

    fn graph(text: &str) -> std::result::Result<String, Diagnostics> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        Ok(Compiler::new(&Options::default()).import(bytes)?.graph.to_string())
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
    fn a_function_call_is_inlined() {
        let found = graph(&CALLS.replace("=> (float[6] a, float[3, 2] b)", "=> (a, b)"));
        let found =
            found.map_err(|diagnostics| diagnostics.to_string()).expect("the model is valid");
        let lines: Vec<&str> = found.lines().map(str::trim).collect();
        for line in [
            "\"one/s\" = Max (x, w)",
            "\"one/t\" = Flatten <axis = 0> (\"one/s\")",
            "a = Squeeze (\"one/t\")",
            // An input that the caller omits is omitted inside.
            "\"b/s\" = Max (x, \"\")",
            "\"b/t\" = Flatten <axis = 2> (\"b/s\")",
        ] {
            assert!(lines.iter().any(|found| found.starts_with(line)), "{line}\n{found}");
        }
    }

    #[test]
    fn errors_in_a_function_name_its_caller() {
        let text = CALLS.replace("Max(v, bias)", "Max(v, nowhere)");
        let diagnostic = graph(&text).expect_err("nothing defines a name").0.remove(0);
        assert_eq!(diagnostic.code, Code::UndefinedValue);
        assert_eq!(diagnostic.at.join(" › "), "function `f.Sum` › node `r` (Max), number 0");
        let text = CALLS.replace("(x, w)\n", "(x, w, x)\n");
        let diagnostic = graph(&text).expect_err("there are two inputs").0.remove(0);
        assert_eq!(diagnostic.code, Code::BadArity);
    }

    #[test]
    fn a_function_that_calls_itself_is_an_error() {
        let text = CALLS.replace("Max(v, bias)", "f.Sum(v, bias)");
        let diagnostic = graph(&text).expect_err("the function is recursive").0.remove(0);
        assert_eq!(diagnostic.code, Code::RecursiveFunction);
    }

    #[test]
    fn functions_that_inline_to_too_many_nodes_are_errors() {
        let twice = |i: usize| {
            format!(
                "<domain: \"f\", opset_import: [\"f\" : 1]> F{i} (x) => (z) {{ y = f.F{0}(x) z = \
                f.F{0}(y) }}",
                i + 1
            )
        };
        let last = "<domain: \"f\", opset_import: [\"\" : 21]> F40 (x) => (y) { y = Relu(x) }";
        let model =
            "<ir_version: 10, opset_import: [\"f\" : 1]> g (float[2] x) => (y) { y = f.F0(x) }";
        let functions: String = (0..40).map(twice).collect();
        let found =
            graph(&format!("{model}{functions}{last}")).expect_err("inlining gives 2^40 nodes").0;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, Code::TooLarge);
        assert_eq!(found[0].at, ["graph `g`", "node `y` (F0), number 0"]);
    }

    #[test]
    fn every_body_is_a_valid_function() {
        for entry in entries() {
            if let Reading::Body(body) = entry.reading {
                let function = operator(entry, body);
                let function = function.map_err(|diagnostic| diagnostic.to_string());
                let function = function.expect(entry.name);
                let found = check::function(&function).into_first();
                assert_eq!(found, Ok(()), "{}", entry.name);
            }
        }
    }
}
