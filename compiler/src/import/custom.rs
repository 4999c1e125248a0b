//! Custom operators: operators that are bound to the user's functions.
//!
//! Their output types are declared by the model or by the user.

use super::{
    context::{Given, GraphBuilder, Scope, name},
    custom_bindings::operator,
    text, types,
};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dim::Dim,
    ident,
    ir::{NewNode, ValueId},
    ops::custom::{Custom, function_attribute},
    ty::Type,
};
use onnxc_proto::{
    NodeProto,
    tensor_shape_proto::{Dimension, dimension::Value as Size},
    type_proto::Value as Declared,
};
use std::collections::BTreeSet;

impl GraphBuilder<'_> {
    /// Adds a node of an operator that is bound to `function`.
    pub(super) fn custom(
        &mut self,
        function: &str,
        node: &NodeProto,
        inputs: Vec<Option<ValueId>>,
        attributes: &[Given<'_>],
        scope: &mut Scope<'_>,
    ) -> Result {
        if !ident::is_path(function) {
            let message = format!("{} is not the path of a function", quoted(function));
            return Err(Diagnostic::new(Code::BadOption, message)
                .help("start it at the root of a crate: `crate::path::of::function`"));
        }
        let (typed, _) = self.read_attributes(attributes)?;
        let attributes = typed
            .into_iter()
            .map(|(name, value)| Ok((name.clone(), function_attribute(&name, value)?)));
        let attributes = attributes.collect::<Result<Vec<_>>>()?;
        let mut outputs = Vec::new();
        for name in &node.output {
            outputs.push(if name.is_empty() {
                None
            } else {
                Some(self.declared_output(name, scope)?)
            });
        }
        let operator = operator(node);
        let [optional_inputs, optional_outputs] =
            self.bindings.left_out.get(&operator).cloned().unwrap_or_default();
        let (domain, op_type) = operator;
        let op = Custom {
            operator: if domain.is_empty() { op_type } else { format!("{domain}.{op_type}") },
            function: function.to_owned(),
            attributes,
            outputs,
            optional_inputs,
            optional_outputs,
        };
        let label = |name: &String| (!name.is_empty()).then(|| scope.label(name));
        let names: Vec<Option<String>> = node.output.iter().map(label).collect();
        let title = scope.label(name(node));
        let (op, regions) = (std::rc::Rc::new(op), Vec::new());
        let new = NewNode { name: &title, op, inputs, outputs: &names, regions };
        let (id, result) = self.graph.node(scope.region, new);
        let outputs = self.graph[id].outputs.clone();
        for (name, output) in node.output.iter().zip(outputs) {
            if let Some(output) = output {
                self.define(name, output, scope);
            }
        }
        result
    }

    /// The type that the user, or else the model, declares for a value.
    fn declared_output(&mut self, name: &str, scope: &Scope<'_>) -> Result<Type> {
        let label = scope.label(name);
        let help = || format!("declare it: `--type {label}=float[2,3]`");
        let declared = match self.settings.types.get(&label) {
            Some(text) => {
                self.bindings.used.insert(label.clone());
                Some(text::ty(text)?)
            }
            None => self.bindings.types.get(name).map(|ty| (*ty).clone()),
        };
        let at = |diagnostic: Diagnostic| diagnostic.within(format!("value {}", quoted(&label)));
        let declared = declared.ok_or_else(|| {
            let message = "the type of this output of a custom operator is not declared";
            at(Diagnostic::new(Code::UnknownShape, message).help(help()))
        })?;
        let ty = types::ty(&declared, name, &mut self.dims).map_err(at)?;
        let Some(tensor) = ty.as_tensor() else {
            let message =
                format!("an output of a custom operator is a tensor of known rank, not {ty}");
            return Err(at(Diagnostic::new(Code::UnknownShape, message).help(help())));
        };
        let mut symbols = BTreeSet::new();
        tensor.shape.iter().for_each(|dim| dim.symbols(&mut symbols));
        symbols.retain(|symbol| !self.graph.symbols.contains_key(symbol));
        let mut ty = ty;
        for symbol in symbols {
            let size = self.dims.sizes.get(&symbol).map_or(&*symbol, |size| &*size.label);
            let Some(made) = self.existing_size(size, scope) else {
                let message =
                    format!("neither an input nor a value before it has the size {}", quoted(size));
                let help = format!("fix it with `--dim {size}=N`, or {}", help());
                return Err(at(Diagnostic::new(Code::UnknownShape, message).help(help)));
            };
            ty = ty.map_dims(&|dim| dim.substitute(&symbol, &made));
        }
        Ok(ty)
    }

    /// The size of the first axis that the model calls `label`, among values that exist already.
    fn existing_size(&self, label: &str, scope: &Scope<'_>) -> Option<Dim> {
        self.bindings.types.iter().find_map(|(&name, ty)| {
            let (Some(Declared::TensorType(ty)), Some(id)) = (&ty.value, scope.values.get(name))
            else {
                return None;
            };
            let is_it =
                |dim: &Dimension| matches!(&dim.value, Some(Size::DimParam(name)) if name == label);
            let axis = ty.shape.as_ref()?.dim.iter().position(is_it)?;
            self.graph[id].ty.sizes().get(axis).cloned()
        })
    }

    /// Reports bindings and types of the user that match nothing in the model.
    pub(super) fn unused_bindings(&mut self) {
        for ((domain, name), function) in &self.settings.customs {
            let found = self.bindings.left_out.get(&(domain.clone(), name.clone()));
            if found.is_none_or(|[inputs, outputs]| inputs.is_empty() && outputs.is_empty()) {
                let name =
                    if domain.is_empty() { name.clone() } else { format!("{domain}::{name}") };
                let message = format!(
                    "no node has the operator {}, to which {} is bound",
                    quoted(&name),
                    quoted(function)
                );
                self.found.push(Diagnostic::new(Code::BadOption, message));
            }
        }
        for name in self.settings.types.keys().filter(|name| !self.bindings.used.contains(*name)) {
            let message = format!("no custom operator has the output {}", quoted(name));
            self.found.push(Diagnostic::new(Code::BadOption, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compiler, Options, diag::Diagnostics, import::Settings};

    const TEXT: &str = r#"
        <ir_version: 10, opset_import: ["" : 21, "a" : 1]>
        g (float[n, 2] x) => (float[n] y) <float[n, 2] z> {
            z = a.Twist<k = 1>(x)
            y, _ = a.Join(z, "", x)
        }
    "#;

    fn graph(types: &[(&str, &str)]) -> std::result::Result<String, Diagnostics> {
        let customs = [("Twist", "crate::turn"), ("Join", "::ops::join")];
        let customs = customs.map(|(name, path)| (("a".to_owned(), name.to_owned()), path.into()));
        let types = types.iter().map(|(name, ty)| ((*name).to_owned(), (*ty).to_owned()));
        let settings = Settings {
            customs: customs.into_iter().collect(),
            types: types.collect(),
            ..Settings::default()
        };
        let options = Options { settings, ..Options::default() };
        Ok(Compiler::new(&options).import(TEXT.into())?.graph.to_string())
    }

    #[test]
    fn the_model_or_the_user_declares_the_output_types() {
        let found = graph(&[("_", "int64[3]")]).expect("every type is declared");
        assert!(found.contains("float[n, 2]") && found.contains("crate::turn"), "{found}");
        let diagnostic = graph(&[]).expect_err("the type of `_` is not declared").0.remove(0);
        assert_eq!((diagnostic.code, diagnostic.at.len()), (Code::UnknownShape, 3), "{diagnostic}");
        let diagnostic =
            graph(&[("_", "float[m]")]).expect_err("no value has the size `m`").0.remove(0);
        assert!(diagnostic.message.contains("`m`"), "{diagnostic}");
    }

    #[test]
    fn a_size_may_refer_to_an_earlier_value() {
        let text = r#"
            <ir_version: 10, opset_import: ["" : 21, "a" : 1]>
            g (float[past, 2] k, float[1, 2] x) => (float[total, 2] both, float[total, 2] y) {
                both = Concat<axis = 0>(k, x)
                y = a.Twist(both)
            }
        "#;
        let customs = [(("a".to_owned(), "Twist".to_owned()), "crate::turn".to_owned())].into();
        let settings = Settings { customs, ..Settings::default() };
        let options = Options { settings, ..Options::default() };
        let imported = Compiler::new(&options).import(text.into());
        let graph = imported.expect("`both` has the size `total`").graph;
        let made = graph.value_named("y").map(|id| graph[id].ty.to_string());
        assert_eq!(made.as_deref(), Some("float[past + 1, 2]"));
    }
}
