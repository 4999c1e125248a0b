//! The inputs of a model: what the caller gives, or may leave out, what is a constant, and what the
//! model keeps from one run to the next.

use super::{
    Axis, Const, Defaults,
    context::{GraphBuilder, Scope},
};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    ir::{Held, Interface, ValueId},
    tensor::Tensor,
    ty::Type,
};
use onnxc_proto::{GraphProto, ValueInfoProto};

/// Before this version of the file format every initializer had to be listed among the inputs.
const DEFAULTS_SINCE: i64 = 4;

impl GraphBuilder<'_> {
    /// Adds the inputs of the model, of which `scope` knows the initializers.
    pub(super) fn model_inputs(&mut self, proto: &GraphProto, scope: &mut Scope<'_>) -> Interface {
        let mut interface = self.variables(proto, scope);
        let first = interface.states.len();
        let mut names = Vec::new();
        for input in &proto.input {
            let initial = scope.values.get(input.name()).copied();
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

    /// What an input is where the user says nothing of it.
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
                Initial::Input(self.with_axes(input.name(), ty), None)
            }
        }
    }

    /// The type of an input, with the axes that the user says where the model says none.
    fn with_axes(&mut self, name: &str, ty: Type) -> Type {
        match (self.settings.shapes.get(name), ty) {
            (Some(axes), _) if axes.iter().any(|axis| matches!(axis, Axis::Fixed(n) if *n < 0)) => {
                let message = format!("a size of the input {} is negative", quoted(name));
                self.found.push(Diagnostic::new(Code::BadOption, message));
                Type::Unknown
            }
            (Some(axes), Type::Unranked(dtype)) => Type::tensor(dtype, self.dims.of_axes(axes)),
            (Some(_), ty) => {
                let message = format!("the input {} is {ty}, so its axes are known", quoted(name));
                let diagnostic = Diagnostic::new(Code::BadOption, message);
                self.found.push(diagnostic.help("settle its free sizes with `--dim`"));
                ty
            }
            (None, ty) => ty,
        }
    }

    /// An input that the user made a constant.
    fn constant(&mut self, input: &ValueInfoProto, text: &str) -> ValueId {
        let ty = self.declared(input).unwrap_or(Type::Unknown);
        let tensor = super::constant::tensor(text, &ty);
        match self.found.keep(tensor.map_err(|diagnostic| diagnostic.within(place(input)))) {
            Some(tensor) => self.graph.constant(input.name(), tensor),
            None => self.graph.value(input.name(), Type::Unknown),
        }
    }

    /// An input that the user made the constant that is its default.
    fn default_constant(&mut self, input: &ValueInfoProto, initial: Option<ValueId>) -> ValueId {
        initial.unwrap_or_else(|| {
            let message = format!("the input {} has no default", quoted(input.name()));
            let diagnostic = Diagnostic::new(Code::BadOption, message).within(place(input));
            self.found.push(diagnostic.help(format!("say `--const {}=VALUE`", input.name())));
            self.graph.value(input.name(), Type::Unknown)
        })
    }

    /// A diagnostic for each size and each input that the user settles and the model, which was built,
    /// does not have.
    pub(super) fn unused(&self, proto: &GraphProto) -> Vec<Diagnostic> {
        let names = || proto.input.iter().map(|input| input.name());
        let settled = self.settings.consts.keys().chain(self.settings.shapes.keys());
        let settled = settled.filter(|settled| !names().any(|name| name == settled.as_str()));
        let inputs = settled.map(|name| unknown("input", name, names()));
        inputs.chain(self.dims.diagnostics()).collect()
    }

    /// The state that the user names, of a model whose inputs from `first` on have these names.
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

/// What an input is where the user says nothing of it.
enum Initial {
    /// The constant that this is.
    Constant(ValueId),
    /// What the caller gives, of that type; he may leave out what has a default.
    Input(Type, Option<Tensor>),
}

fn place(input: &ValueInfoProto) -> String {
    format!("input {}", quoted(input.name()))
}

/// Holds the default of an input against the type that the model declares.
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

/// A diagnostic that an input is to be a constant and a state.
fn constant_state(name: &str) -> Diagnostic {
    let message = format!("the input {} is a constant, so no run can change it", quoted(name));
    Diagnostic::new(Code::BadOption, message).help(format!("leave out `--const {name}`"))
}

/// A diagnostic that the model has no input or output of that name, but others.
fn unknown<'n>(kind: &str, name: &str, names: impl Iterator<Item = &'n str>) -> Diagnostic {
    let message = format!("the model has no {kind} {}", quoted(name));
    let names: Vec<&str> = names.collect();
    let known = if names.is_empty() { "none".into() } else { names.join(", ") };
    Diagnostic::new(Code::BadOption, message).note(format!("its {kind}s: {known}"))
}
