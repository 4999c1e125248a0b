//! Imports the inputs of a model: arguments, arguments with a default, constants and states.

use super::{
    Axis, Const, Defaults,
    context::{GraphBuilder, Scope},
    types,
};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dim::Dim,
    ident,
    ir::{Held, Interface, ValueId},
    tensor::Tensor,
    ty::Type,
};
use onnxc_proto::{GraphProto, NodeProto, ValueInfoProto};

/// The version of the file format since which an initializer need not be an input as well.
const DEFAULTS_SINCE: i64 = 4;

impl<'p> GraphBuilder<'p> {
    /// Adds the inputs of the model. `scope` has its initializers.
    pub(super) fn model_inputs(&mut self, proto: &GraphProto, scope: &mut Scope<'_>) -> Interface {
        let mut interface = self.variables(proto, scope);
        let first = interface.states.len();
        let mut names = Vec::new();
        for input in &proto.input {
            let initial = scope.values.get(input.name());
            let id = match self.settings.consts.get(input.name()) {
                Some(Const::Value(text)) => self.constant(input, text),
                Some(Const::Default) => self.default_constant(input, initial),
                None => match self.default(input, initial) {
                    Initial::Constant(id) => id,
                    Initial::Input(ty, default) => {
                        let tensor =
                            default.into_iter().map(|tensor| (first + names.len(), tensor));
                        interface.defaults.extend(tensor);
                        names.push(input.name());
                        self.graph.input(scope.region, input.name(), ty)
                    }
                },
            };
            scope.values.insert(input.name().to_owned(), id);
        }
        interface.states.extend(self.states(proto, first, &names));
        interface
    }

    /// Classifies an input for which the user sets nothing.
    fn default(&mut self, input: &ValueInfoProto, initial: Option<ValueId>) -> Initial {
        let initial = initial.map(|id| (id, self.graph[id].constant.clone()));
        let is_argument = self.graph.info.ir_version >= DEFAULTS_SINCE
            && self.settings.defaults == Defaults::Argument;
        match initial {
            Some((id, None)) => Initial::Constant(id),
            Some((id, Some(_))) if !is_argument => Initial::Constant(id),
            Some((_, Some(tensor))) => {
                let ty = self.declared(input).unwrap_or(Type::Unknown);
                let at = |diagnostic: Diagnostic| diagnostic.within(place(input));
                self.found.keep(fits(&tensor, &ty).map_err(at));
                Initial::Input(ty, Some(tensor))
            }
            None => {
                let ty = self.declared(input).unwrap_or(Type::Unknown);
                Initial::Input(self.with_axes(input, ty), None)
            }
        }
    }

    /// The type of an input, with the user's shape for the sizes that the model does not fix.
    fn with_axes(&mut self, input: &ValueInfoProto, ty: Type) -> Type {
        let name = input.name();
        match (self.use_shape(name), ty) {
            (Some(axes), _) if axes.iter().any(|axis| matches!(axis, Axis::Fixed(n) if *n < 0)) => {
                let message = format!("a size of the input {} is negative", quoted(name));
                self.found.push(Diagnostic::new(Code::BadOption, message));
                Type::Unknown
            }
            (Some(axes), Type::Unranked(dtype)) => {
                Type::tensor(dtype, self.dims.of_axes(name, axes))
            }
            (Some(axes), Type::Tensor(declared)) => {
                let shape = self.dims.of_axes(name, axes);
                // A 0 may mean that the size is unknown.
                let fixed = types::declared_sizes(input).into_iter().map(|size| size.unwrap_or(0));
                let is_given = |(fixed, given): (i64, &Dim)| fixed == 0 || given == &fixed.into();
                if shape.len() == declared.rank() && fixed.zip(&shape).all(is_given) {
                    return Type::tensor(declared.dtype, shape);
                }
                let ty = Type::Tensor(declared);
                let message = format!("the input {} is {ty}, which has other axes", quoted(name));
                let diagnostic = Diagnostic::new(Code::BadOption, message);
                self.found.push(diagnostic.help("give its free sizes only: keep the others"));
                ty
            }
            (Some(_), ty) => {
                let message = format!("the input {} is {ty}, which has no axes", quoted(name));
                self.found.push(Diagnostic::new(Code::BadOption, message));
                ty
            }
            (None, ty) => ty,
        }
    }

    /// The type of an output, with the user's shape if the model declares none.
    pub(super) fn with_declared_axes(&mut self, name: &str, ty: Type) -> Type {
        match (self.settings.shapes.get(name), ty) {
            (Some(axes), Type::Unranked(dtype)) => {
                self.use_shape(name);
                Type::tensor(dtype, self.dims.of_axes(name, axes))
            }
            (_, ty) => ty,
        }
    }

    /// Returns the shape that the user sets for the value called `name`, and notes its use.
    pub(super) fn use_shape(&mut self, name: &str) -> Option<&'p [Axis]> {
        let (name, axes) = self.settings.shapes.get_key_value(name)?;
        self.used_shapes.insert(name);
        Some(axes)
    }

    /// Adds an input that the user fixed to the constant `text`.
    fn constant(&mut self, input: &ValueInfoProto, text: &str) -> ValueId {
        let ty = self.declared(input).unwrap_or(Type::Unknown);
        let tensor = super::constant::tensor(text, &ty);
        match self.found.keep(tensor.map_err(|diagnostic| diagnostic.within(place(input)))) {
            Some(tensor) => self.graph.constant(input.name(), tensor),
            None => self.graph.value(input.name(), Type::Unknown),
        }
    }

    /// Adds an input that the user fixed to its default.
    fn default_constant(&mut self, input: &ValueInfoProto, initial: Option<ValueId>) -> ValueId {
        initial.unwrap_or_else(|| {
            let message = format!("the input {} has no default", quoted(input.name()));
            let diagnostic = Diagnostic::new(Code::BadOption, message).within(place(input));
            self.found.push(diagnostic.help(format!("set `--const {}=VALUE`", input.name())));
            self.graph.value(input.name(), Type::Unknown)
        })
    }

    /// Reports sizes, shapes and inputs that the user sets and the model does not have. Warns of
    /// shapes without effect.
    pub(super) fn unused(&self, proto: &GraphProto) -> Vec<Diagnostic> {
        let names = || proto.input.iter().map(|input| input.name());
        let is_input = |name: &str| names().any(|input| input == name);
        let consts = self.settings.consts.keys().filter(|name| !is_input(name));
        let consts = consts.map(|name| unknown("input", name, names()));
        let shapes = self.settings.shapes.keys();
        let shapes = shapes.filter(|name| !self.used_shapes.contains(name.as_str()));
        let shapes = shapes.filter_map(|name| self.unused_shape(name, proto));
        consts.chain(shapes).chain(self.dims.diagnostics()).collect()
    }

    /// Returns the diagnostic for a shape of which the import made no use. After an error, it might
    /// have made use of one.
    fn unused_shape(&self, name: &str, proto: &GraphProto) -> Option<Diagnostic> {
        let inputs = || proto.input.iter().map(|input| input.name());
        let values = || inputs().chain(named_values(&proto.node));
        if !values().any(|value| value == name) {
            let error = unknown("input", name, inputs());
            return Some(match ident::nearest(name, values()) {
                Some(near) => error.help(format!("did you mean {}?", quoted(near))),
                None => error,
            });
        }
        let message = format!(
            "the shape of {} has no effect, because the model determines its axes",
            quoted(name)
        );
        let warning = Diagnostic::warning(Code::BadOption, message);
        let warning = warning.help(format!("omit `--shape {name}=…`, or fix sizes with `--dim`"));
        (!self.found.has_errors()).then_some(warning)
    }

    /// The states that the user names. The model's inputs from `first` on have these names.
    fn states(&mut self, proto: &GraphProto, first: usize, inputs: &[&str]) -> Vec<Held> {
        let outputs: Vec<&str> = proto.output.iter().map(|output| output.name()).collect();
        let consts = &self.settings.consts;
        let mut find = |kind: &str, name: &str, names: &[&str]| {
            let place = format!("state {}", quoted(name));
            let found = names.iter().position(|found| *found == name);
            let missing = || match consts.contains_key(name) && kind == "input" {
                true => constant_state(name),
                false => unknown(kind, name, names.iter().copied()),
            };
            self.found.keep(found.ok_or_else(|| missing().within(place)))
        };
        let states = self.settings.states.iter().filter_map(|(input, output)| {
            let found = (find("input", input, inputs), find("output", output, &outputs));
            Some(Held { input: first + found.0?, output: Some(found.1?) })
        });
        states.collect()
    }
}

/// The kind of an input for which the user sets nothing.
enum Initial {
    /// An initializer.
    Constant(ValueId),
    /// An argument of this type. The caller may omit one with a default.
    Input(Type, Option<Tensor>),
}

fn place(input: &ValueInfoProto) -> String {
    format!("input {}", quoted(input.name()))
}

/// Compares the default of an input with the type that the model declares.
fn fits(default: &Tensor, declared: &Type) -> Result {
    let fits = match declared {
        Type::Tensor(ty) => {
            let mut sizes = ty.shape.iter().zip(&default.shape);
            ty.dtype == default.dtype
                && ty.rank() == default.shape.len()
                && sizes.all(|(dim, &size)| dim.known().is_none_or(|known| known == size as i64))
        }
        Type::Unranked(dtype) => *dtype == default.dtype,
        Type::Unknown => true,
        Type::Sequence(_)
        | Type::Optional(_)
        | Type::Map(..)
        | Type::Never(_)
        | Type::Sparse(_) => false,
    };
    if fits {
        return Ok(());
    }
    let message = format!("the model declares {declared}, but the default is {}", default.ty());
    Err(Diagnostic::new(Code::DeclaredMismatch, message))
}

/// The error for an input that is both a constant and a state.
fn constant_state(name: &str) -> Diagnostic {
    let message = format!("the input {} is a constant, so no run can change it", quoted(name));
    Diagnostic::new(Code::BadOption, message).help(format!("omit `--const {name}`"))
}

/// Returns the names of the values that nodes compute, in subgraphs as well.
fn named_values(nodes: &[NodeProto]) -> Box<dyn Iterator<Item = &str> + '_> {
    Box::new(nodes.iter().flat_map(|node| {
        let graphs = node.attribute.iter().filter_map(|attribute| attribute.g.as_deref());
        let inside = graphs.flat_map(|graph| named_values(&graph.node));
        node.output.iter().map(String::as_str).chain(inside)
    }))
}

/// The error for a name that no input or output of the model has.
fn unknown<'n>(kind: &str, name: &str, names: impl Iterator<Item = &'n str>) -> Diagnostic {
    let message = format!("the model has no {kind} {}", quoted(name));
    let names: Vec<&str> = names.collect();
    let known = if names.is_empty() { "none".into() } else { names.join(", ") };
    let diagnostic =
        Diagnostic::new(Code::BadOption, message).note(format!("its {kind}s: {known}"));
    match ident::nearest(name, names) {
        Some(near) => diagnostic.help(format!("did you mean {}?", quoted(near))),
        None => diagnostic,
    }
}
