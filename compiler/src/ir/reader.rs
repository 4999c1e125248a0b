//! Reading of a node in a file as an operator.

use super::{Attribute, Graph, Op, RegionId, ValueId};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dtype::DType,
    limits::Budget,
    tensor::Tensor,
    ty::Type,
};
use std::collections::BTreeMap;

/// A node of a file. Reading an attribute removes it, so that unknown attributes remain at the end.
pub struct Reader<'a> {
    /// The version of the operator set.
    pub version: i64,
    /// The inputs. A reader of an old version may append what was an attribute.
    pub inputs: Vec<Option<ValueId>>,
    /// The number of outputs, omitted ones before the last one included.
    pub outputs: usize,
    /// The number of the last outputs that nothing in the model reads.
    pub unread: usize,
    /// Warnings about the way in which the node is read.
    pub warnings: Vec<Diagnostic>,
    graph: &'a mut Graph,
    region: RegionId,
    attributes: BTreeMap<String, Attribute>,
    regions: Vec<usize>,
}

/// Defines readers of attributes of one kind each.
macro_rules! kinds {
    ($($name:ident $Variant:ident $T:ty, $what:literal;)*) => {$(
        #[doc = concat!("Reads an optional ", $what, ".")]
        ///
        /// # Errors
        ///
        /// Returns an error if the attribute has another type.
        pub fn $name(&mut self, name: &str) -> Result<Option<$T>> {
            match self.attributes.remove(name) {
                None => Ok(None),
                Some(Attribute::$Variant(value)) => Ok(Some(value)),
                Some(other) => {
                    let message =
                        format!(concat!("`{}` must be ", $what, ", but is {}"), name, other.kind());
                    Err(Diagnostic::new(Code::AttributeType, message)
                        .within(format!("attribute {}", quoted(name))))
                }
            }
        }
    )*};
}

impl<'a> Reader<'a> {
    /// Creates a reader of a node with these attributes.
    pub fn new(
        graph: &'a mut Graph,
        region: RegionId,
        version: i64,
        inputs: Vec<Option<ValueId>>,
        outputs: usize,
        attributes: BTreeMap<String, Attribute>,
    ) -> Reader<'a> {
        Reader {
            version,
            inputs,
            outputs,
            unread: 0,
            warnings: Vec::new(),
            graph,
            region,
            attributes,
            regions: Vec::new(),
        }
    }

    kinds! {
        maybe_int Int i64, "int";
        maybe_float Float f32, "float";
        maybe_ints Ints Vec<i64>, "ints";
        maybe_floats Floats Vec<f32>, "floats";
        maybe_tensor Tensor Tensor, "tensor";
        maybe_type Type Type, "type";
        maybe_tensors Tensors Vec<Tensor>, "tensors";
        maybe_bytes String Vec<u8>, "string";
        maybe_byte_strings Strings Vec<Vec<u8>>, "strings";
    }

    /// Reads an integer.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type.
    pub fn int(&mut self, name: &str, default: i64) -> Result<i64> {
        Ok(self.maybe_int(name)?.unwrap_or(default))
    }

    /// Reads a required integer.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute is missing or has another type.
    pub fn required_int(&mut self, name: &str) -> Result<i64> {
        let value = self.maybe_int(name)?;
        value.ok_or_else(|| missing(name))
    }

    /// Reads a flag: 0 or 1. Another number counts as 1, with a warning.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type.
    pub fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.maybe_int(name)? else { return Ok(default) };
        if !matches!(value, 0 | 1) {
            let message = format!("`{name}` is {value}, but must be 0 or 1");
            let warning = Diagnostic::warning(Code::BadAttribute, message);
            self.warnings.push(warning.note("it is taken for 1; other runtimes may take it for 0"));
        }
        Ok(value != 0)
    }

    /// Reads a float.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type.
    pub fn float(&mut self, name: &str, default: f32) -> Result<f32> {
        Ok(self.maybe_float(name)?.unwrap_or(default))
    }

    /// Reads an optional string.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type or is not UTF-8.
    pub fn maybe_string(&mut self, name: &str) -> Result<Option<String>> {
        self.maybe_bytes(name)?.map(|bytes| utf8(name, bytes)).transpose()
    }

    /// Reads a string.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type or is not UTF-8.
    pub fn string(&mut self, name: &str, default: &str) -> Result<String> {
        Ok(self.maybe_string(name)?.unwrap_or_else(|| default.to_owned()))
    }

    /// Reads optional strings.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type or is not UTF-8.
    pub fn maybe_strings(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(strings) = self.maybe_byte_strings(name)? else { return Ok(None) };
        strings.into_iter().map(|bytes| utf8(name, bytes)).collect::<Result<_>>().map(Some)
    }

    /// Reads a string and returns the value that `choices` has for it; the first choice is the
    /// default.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type or is none of the choices.
    pub fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Result<T> {
        let Some(found) = self.maybe_string(name)? else { return Ok(choices[0].1) };
        if let Some((_, choice)) = choices.iter().find(|(text, _)| *text == found) {
            return Ok(*choice);
        }
        let all: Vec<&str> = choices.iter().map(|(text, _)| *text).collect();
        let message = format!("`{name}` is {}", quoted(&found));
        Err(Diagnostic::new(Code::BadAttribute, message)
            .note(format!("allowed: {}", all.join(", "))))
    }

    /// Reads an optional element type; 0 is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type or is not the number of an element type.
    pub fn maybe_dtype(&mut self, name: &str) -> Result<Option<DType>> {
        let Some(code) = self.maybe_int(name)?.filter(|&code| code != 0) else { return Ok(None) };
        let dtype = i32::try_from(code).ok().and_then(DType::from_code);
        let unknown = || {
            let message = format!("`{name}` is {code}, which is not an element type");
            Diagnostic::new(Code::BadAttribute, message)
        };
        dtype.map(Some).ok_or_else(unknown)
    }

    /// Converts an attribute of an old version to the input at `position` that replaces it: the
    /// integers called `name`, if the file has them.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute has another type.
    pub fn ints_as_input(&mut self, name: &str, position: usize) -> Result {
        if let Some(ints) = self.maybe_ints(name)? {
            self.add_input(name, position, Tensor::from_ints(&ints));
        }
        Ok(())
    }

    /// Inserts a constant as an input that the new version has.
    pub fn add_input(&mut self, name: &str, position: usize, tensor: Tensor) {
        let value = self.graph.constant(name, tensor);
        self.inputs.resize(self.inputs.len().max(position + 1), None);
        self.inputs[position] = Some(value);
    }

    /// Returns the limits of the compilation.
    pub fn budget(&self) -> &Budget {
        &self.graph.budget
    }

    /// Adds a constant for nodes before the one that is read.
    pub fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        self.graph.constant(name, tensor)
    }

    /// Returns input `i`, which must be present.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is missing.
    pub fn input(&self, i: usize) -> Result<ValueId> {
        self.inputs.get(i).copied().flatten().ok_or_else(|| {
            let message = format!("input {i} is missing, which the operator requires");
            Diagnostic::new(Code::BadArity, message)
        })
    }

    /// Whether input `i` is present.
    pub fn has(&self, i: usize) -> bool {
        self.inputs.get(i).is_some_and(Option::is_some)
    }

    /// Returns the type of a value.
    pub fn type_of(&self, value: ValueId) -> &Type {
        &self.graph[value].ty
    }

    /// Returns input `i`, if it is a constant.
    pub fn constant_input(&self, i: usize) -> Option<&Tensor> {
        self.graph[self.inputs.get(i).copied().flatten()?].constant.as_ref()
    }

    /// Returns the type of input `i`, if it is present.
    pub fn ty(&self, i: usize) -> Option<&Type> {
        let id = self.inputs.get(i).copied().flatten()?;
        Some(&self.graph[id].ty)
    }

    /// Returns the element type of input `i`, which an old version requires to be known.
    ///
    /// # Errors
    ///
    /// Returns an error if the element type is unknown.
    pub fn dtype(&self, i: usize) -> Result<DType> {
        match self.ty(i) {
            Some(Type::Tensor(ty)) => Ok(ty.dtype),
            Some(Type::Unranked(dtype)) => Ok(*dtype),
            _ => Err(Diagnostic::new(
                Code::UnknownShape,
                format!("the element type of input {i} must be known in this version"),
            )),
        }
    }

    /// Returns the elements of input `i`, if it is a constant.
    pub fn elements(&self, i: usize) -> Option<&Tensor> {
        self.graph[self.inputs.get(i).copied().flatten()?].constant.as_ref()
    }

    /// Returns the rank of input `i`, which an old version requires to be known.
    ///
    /// # Errors
    ///
    /// Returns an error if the rank is unknown.
    pub fn rank(&self, i: usize) -> Result<usize> {
        match self.ty(i).and_then(Type::as_tensor) {
            Some(ty) => Ok(ty.rank()),
            None => Err(Diagnostic::new(
                Code::UnknownShape,
                format!("the number of axes of input {i} must be known in this version"),
            )),
        }
    }

    /// Inserts `op`, on input `i` and the given constants, before the node.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs do not fit `op`.
    pub fn wrap_input(&mut self, i: usize, op: impl Op, others: &[Tensor]) -> Result {
        let Some(input) = self.inputs.get(i).copied().flatten() else { return Ok(()) };
        self.inputs[i] = Some(self.add(op, &[input], others)?);
        Ok(())
    }

    /// Adds a node before the one that is read, on the inputs and then the given constants.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs do not fit `op`.
    pub fn add(&mut self, op: impl Op, inputs: &[ValueId], others: &[Tensor]) -> Result<ValueId> {
        let name = inputs.first().map_or("", |&id| &self.graph[id].name).to_owned();
        let name = format!("{name}/{}", op.name());
        let constants = others.iter().map(|tensor| self.graph.constant("constant", tensor.clone()));
        let inputs: Vec<ValueId> = inputs.iter().copied().chain(constants).collect();
        self.graph.add(self.region, &name, op, &inputs)
    }

    /// Makes the subgraph called `name` the node's next region.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute is missing or not a graph.
    pub fn region(&mut self, name: &str) -> Result {
        match self.attributes.remove(name) {
            Some(Attribute::Graph(i)) => {
                self.regions.push(i);
                Ok(())
            }
            Some(other) => {
                let message = format!("`{name}` must be graph, but is {}", other.kind());
                Err(Diagnostic::new(Code::AttributeType, message))
            }
            None => Err(missing(name)),
        }
    }

    /// Makes an optional subgraph the node's next region; returns whether the file has it.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute is not a graph.
    pub fn maybe_region(&mut self, name: &str) -> Result<bool> {
        let given = self.attributes.contains_key(name);
        if given {
            self.region(name)?;
        }
        Ok(given)
    }

    /// Leaves out the last outputs that nothing in the model reads, but not the first output.
    /// Returns their number.
    pub fn drop_unread_outputs(&mut self) -> usize {
        let unread = self.unread.min(self.outputs.saturating_sub(1));
        self.outputs -= unread;
        self.unread = 0;
        unread
    }

    /// Ignores an attribute that does not matter to a compiler.
    pub fn ignore(&mut self, name: &str) {
        self.attributes.remove(name);
    }

    /// Returns the inputs and the subgraphs in the order of the regions.
    ///
    /// # Errors
    ///
    /// Returns an error for attributes that were not read.
    pub fn finish(mut self) -> Result<(Vec<Option<ValueId>>, Vec<usize>)> {
        // The attributes of the first operator sets about memory have no meaning since version 6.
        if self.version < 6 {
            self.ignore("consumed_inputs");
        }
        // ONNX reserves names with two leading underscores for tools.
        let mut left = self.attributes.keys().filter(|name| !name.starts_with("__"));
        match left.next() {
            None => Ok((self.inputs, self.regions)),
            Some(name) => {
                let message = format!("{} is not an attribute of this operator", quoted(name));
                Err(Diagnostic::new(Code::UnknownAttribute, message)
                    .note(format!("operator set {}", self.version)))
            }
        }
    }
}

fn missing(name: &str) -> Diagnostic {
    Diagnostic::new(Code::MissingAttribute, format!("the attribute `{name}` is missing"))
}

fn utf8(name: &str, bytes: Vec<u8>) -> Result<String> {
    let bad = |_| Diagnostic::new(Code::BadText, format!("`{name}` is not valid UTF-8"));
    String::from_utf8(bytes).map_err(bad)
}
