//! The Rust types of a module's inputs and outputs.

use super::{imports::Imports, tokens::number};
use crate::{
    dtype::DType,
    plan::{Place, Plan, Port},
    ty::{Type, count},
};
use proc_macro2::TokenStream;
use quote::quote;

/// The form in which a method takes or returns a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// One number, by value.
    Scalar,
    /// A reference to an array of this length.
    Array(usize),
    /// A view of this rank, with sizes that are known at run time.
    View(usize),
    /// A tensor of this rank on the heap.
    Heap(usize),
    /// A sequence of tensors.
    Sequence,
    /// A map with keys of this type.
    Map(DType),
    /// Maps that share keys of this type.
    Maps(DType, Values),
    /// A value that may be absent.
    Optional(Box<Form>),
}

/// The memory of the values of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// In the arena.
    Arena,
    /// On the heap.
    Heap,
}

impl Form {
    /// Returns the form of an input.
    pub fn of_input(ty: &Type) -> Form {
        match (ty, ty.key()) {
            (Type::Optional(content), _) => Form::Optional(Form::of_input(content).into()),
            (_, Some(key)) => Form::Map(key),
            (Type::Tensor(ty), None) => match ty.known_shape() {
                Some(shape) if shape.is_empty() && ty.dtype != DType::String => Form::Scalar,
                Some(shape) => Form::Array(count(&shape)),
                None => Form::View(ty.rank()),
            },
            (_, None) => Form::Sequence,
        }
    }

    /// Returns the form of an output.
    pub fn of_output(plan: &Plan, port: &Port) -> Form {
        let on_heap = plan.buffers[port.operand.buffer].place == Place::Heap;
        if let (Type::Sequence(_), Some(key)) = (&port.ty, port.ty.key()) {
            return Form::Maps(key, if on_heap { Values::Heap } else { Values::Arena });
        }
        match Form::of_input(&port.ty) {
            Form::Scalar | Form::Array(_) | Form::View(_) if on_heap => {
                Form::Heap(port.shape().len())
            }
            Form::Optional(form) if on_heap && *form != Form::Sequence => {
                Form::Optional(Form::Heap(port.shape().len()).into())
            }
            form => form,
        }
    }

    /// Returns the form of the value, or of the content of an optional.
    pub fn content(&self) -> &Form {
        match self {
            Form::Optional(form) => form,
            form => form,
        }
    }

    /// Returns whether an output is borrowed from the arena.
    pub fn borrows(&self) -> bool {
        matches!(self.content(), Form::Array(_) | Form::View(_) | Form::Maps(_, Values::Arena))
    }

    /// Returns whether an output is read from the arena, borrowed or copied.
    pub fn is_in_arena(&self) -> bool {
        self.borrows() || *self.content() == Form::Scalar
    }

    /// Returns whether a value of the form is checked, because its sizes may not fit.
    pub fn can_fail(&self) -> bool {
        matches!(self.content(), Form::View(_) | Form::Heap(_) | Form::Map(_))
    }
}

/// Spells the forms as Rust types.
pub struct Spelling<'i> {
    pub imports: &'i Imports,
}

impl Spelling<'_> {
    /// Returns the type of an input.
    pub fn input(&self, form: &Form, dtype: DType) -> TokenStream {
        let element = self.input_element(dtype);
        match form {
            Form::Scalar => element,
            Form::Array(len) => {
                let len = number(*len);
                quote!(&[#element; #len])
            }
            Form::View(rank) | Form::Heap(rank) => {
                let (view, rank) = (self.imports.item("view::View"), number(*rank));
                quote!(#view<'_, #element, #rank>)
            }
            Form::Sequence => {
                let sequence = self.imports.item("sequence::Sequence");
                let element = self.imports.element(dtype);
                quote!(&#sequence<#element>)
            }
            Form::Map(key) | Form::Maps(key, _) => {
                let (map, key) = (self.imports.item("map::Map"), self.input_element(*key));
                quote!(#map<'_, #key, #element>)
            }
            Form::Optional(form) => {
                let (option, form) =
                    (self.imports.prelude("option", "Option"), self.input(form, dtype));
                quote!(#option<#form>)
            }
        }
    }

    /// Returns the type of an input, which is a slice if the input is an array.
    pub fn slice_input(&self, form: &Form, dtype: DType) -> TokenStream {
        match form {
            Form::Array(_) => {
                let element = self.input_element(dtype);
                quote!(&[#element])
            }
            Form::Optional(form) => {
                let (option, form) =
                    (self.imports.prelude("option", "Option"), self.slice_input(form, dtype));
                quote!(#option<#form>)
            }
            _ => self.input(form, dtype),
        }
    }

    /// Returns the type of an input's elements.
    pub fn input_element(&self, dtype: DType) -> TokenStream {
        if dtype == DType::String { quote!(&str) } else { self.imports.element(dtype) }
    }

    /// Returns the type of an output.
    pub fn output(&self, form: &Form, dtype: DType, lifetime: &TokenStream) -> TokenStream {
        let element = self.imports.element(dtype);
        match form {
            Form::Scalar => element,
            Form::Array(len) => {
                let len = number(*len);
                let life = (lifetime.to_string() != "'_").then(|| lifetime.clone());
                quote!(&#life [#element; #len])
            }
            Form::View(rank) => {
                let (view, rank) = (self.imports.item("view::View"), number(*rank));
                quote!(#view<#lifetime, #element, #rank>)
            }
            Form::Heap(rank) => {
                let (tensor, rank) = (self.imports.item("view::Tensor"), number(*rank));
                quote!(#tensor<#element, #rank>)
            }
            Form::Sequence => {
                let sequence = self.imports.item("sequence::Sequence");
                quote!(#sequence<#element>)
            }
            Form::Map(key) | Form::Maps(key, Values::Arena) => self.maps(*key, &element, lifetime),
            Form::Maps(key, Values::Heap) => self.maps(*key, &element, &quote!('static)),
            Form::Optional(form) => {
                let option = self.imports.prelude("option", "Option");
                let form = self.output(form, dtype, lifetime);
                quote!(#option<#form>)
            }
        }
    }

    /// Returns the type of maps whose keys are constants of the module.
    fn maps(&self, key: DType, element: &TokenStream, lifetime: &TokenStream) -> TokenStream {
        let maps = self.imports.item("map::Maps");
        let key =
            if key == DType::String { quote!(&'static str) } else { self.imports.element(key) };
        quote!(#maps<#lifetime, #key, #element>)
    }
}
