//! The geometry of a call as formulas over sizes: source text for emitted code, numbers for the
//! interpreter.

use crate::dim::Dim;
use onnxc_runtime::{bf16, f16};

/// Maps the name of a size to its value.
pub type Symbols<'a> = dyn Fn(&str) -> i64 + 'a;

/// Writes a size as Rust source.
pub type SizeText<'a> = dyn Fn(&Dim) -> String + 'a;

/// The arguments of a kernel after its inputs and outputs, with formulas as sizes: a geometry
/// struct, or a tuple of a few arguments.
pub trait Formula: Clone + 'static {
    /// The kernel's parameter type.
    type Numbers<'a>;

    /// Returns the arguments as Rust source.
    fn source(&self, sizes: &SizeText<'_>) -> Vec<String>;

    /// Appends the runtime library's paths that the source names.
    fn uses(&self, paths: &mut Vec<&'static str>);

    /// Calls `see` with every size.
    fn visit(&self, see: &mut dyn FnMut(&Dim));

    /// Calls `then` with the kernel's arguments.
    fn with(&self, symbols: &Symbols<'_>, then: &mut dyn FnMut(Self::Numbers<'_>));
}

/// One field of a [`Formula`].
pub trait Field: Clone + 'static {
    /// The value with numbers as sizes.
    type Number;
    /// The type of the field in the kernel's struct.
    type Given<'a>;

    /// Returns the value as Rust source.
    fn source(&self, sizes: &SizeText<'_>) -> String;

    /// Appends the runtime library's paths that the source names.
    fn uses(&self, _: &mut Vec<&'static str>) {}

    /// Calls `see` with every size.
    fn visit(&self, _: &mut dyn FnMut(&Dim)) {}

    /// Returns the value with numbers as sizes.
    fn number(&self, symbols: &Symbols<'_>) -> Self::Number;

    /// Converts the value to the type of the field in the kernel's struct.
    fn give(number: &Self::Number) -> Self::Given<'_>;
}

/// The formula of a kernel without geometry.
#[derive(Clone, Copy, Debug)]
pub struct NoParams;

impl Formula for NoParams {
    type Numbers<'a> = ();

    fn source(&self, _: &SizeText<'_>) -> Vec<String> {
        Vec::new()
    }

    fn uses(&self, _: &mut Vec<&'static str>) {}

    fn visit(&self, _: &mut dyn FnMut(&Dim)) {}

    fn with(&self, _: &Symbols<'_>, then: &mut dyn FnMut(())) {
        then(());
    }
}

/// Returns a struct as Rust source.
pub fn struct_source(name: &str, fields: &[&str], values: Vec<String>) -> String {
    let fields = fields.iter().zip(values).map(|(&name, value)| match name == value {
        true => value,
        false => format!("{name}: {value}"),
    });
    let fields: Vec<String> = fields.collect();
    format!("{name} {{ {} }}", fields.join(", "))
}

/// Defines a struct of formulas for each geometry of the runtime library; rustc checks the fields
/// against the kernel's struct. A struct is all arguments of a kernel, one of its arguments, or a
/// field of another struct.
macro_rules! formulas {
    ($(
        $(#[$doc:meta])*
        $path:literal $name:ident: $target:path { $($field:ident: $ty:ty,)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[allow(missing_docs)]
        pub struct $name {
            $(pub $field: $ty,)*
        }

        impl $crate::plan::Field for $name {
            type Number = ($(<$ty as $crate::plan::Field>::Number,)*);
            type Given<'a> = $target;

            fn source(&self, sizes: &$crate::plan::SizeText<'_>) -> String {
                let values = vec![$($crate::plan::Field::source(&self.$field, sizes)),*];
                $crate::plan::struct_source(stringify!($name), &[$(stringify!($field)),*], values)
            }

            fn uses(&self, paths: &mut Vec<&'static str>) {
                paths.push($path);
                $($crate::plan::Field::uses(&self.$field, paths);)*
            }

            fn visit(&self, see: &mut dyn FnMut(&$crate::dim::Dim)) {
                $($crate::plan::Field::visit(&self.$field, see);)*
            }

            fn number(&self, symbols: &$crate::plan::Symbols<'_>) -> Self::Number {
                ($($crate::plan::Field::number(&self.$field, symbols),)*)
            }

            fn give(($($field,)*): &Self::Number) -> Self::Given<'_> {
                type Target<'a> = $target;
                Target { $($field: <$ty as $crate::plan::Field>::give($field),)* }
            }
        }

        impl $crate::plan::Formula for $name {
            type Numbers<'a> = $target;

            fn source(&self, sizes: &$crate::plan::SizeText<'_>) -> Vec<String> {
                vec![$crate::plan::Field::source(self, sizes)]
            }

            fn uses(&self, paths: &mut Vec<&'static str>) {
                $crate::plan::Field::uses(self, paths);
            }

            fn visit(&self, see: &mut dyn FnMut(&$crate::dim::Dim)) {
                $crate::plan::Field::visit(self, see);
            }

            fn with(
                &self,
                symbols: &$crate::plan::Symbols<'_>,
                then: &mut dyn FnMut(Self::Numbers<'_>),
            ) {
                let numbers = $crate::plan::Field::number(self, symbols);
                then(<Self as $crate::plan::Field>::give(&numbers));
            }
        }
    )*};
}
pub(crate) use formulas;

/// Implements `Formula` for tuples, which become separate arguments of a kernel.
macro_rules! tuples {
    ($(($($F:ident $x:ident),*))*) => {$(
        impl<$($F: Field),*> Formula for ($($F,)*) {
            type Numbers<'a> = ($($F::Given<'a>,)*);

            fn source(&self, sizes: &SizeText<'_>) -> Vec<String> {
                let ($($x,)*) = self;
                vec![$($x.source(sizes)),*]
            }

            fn uses(&self, paths: &mut Vec<&'static str>) {
                let ($($x,)*) = self;
                $($x.uses(paths);)*
            }

            fn visit(&self, see: &mut dyn FnMut(&Dim)) {
                let ($($x,)*) = self;
                $($x.visit(see);)*
            }

            fn with(&self, symbols: &Symbols<'_>, then: &mut dyn FnMut(Self::Numbers<'_>)) {
                let ($($x,)*) = self;
                $(let $x = $x.number(symbols);)*
                then(($($F::give(&$x),)*));
            }
        }
    )*};
}

tuples! { (A a) (A a, B b) (A a, B b, C c) (A a, B b, C c, D d) }

/// Implements `Field` for types without sizes: the value is its own source and number.
macro_rules! plain_fields {
    ($($T:ty: |$x:ident| $source:expr;)*) => {$(
        impl $crate::plan::Field for $T {
            type Number = $T;
            type Given<'a> = $T;

            fn source(&self, _: &$crate::plan::SizeText<'_>) -> String {
                let $x = self;
                $source
            }

            fn number(&self, _: &$crate::plan::Symbols<'_>) -> $T {
                self.clone()
            }

            fn give(number: &$T) -> $T {
                number.clone()
            }
        }
    )*};
}

/// Implements `Field` for enums that a kernel's struct has unchanged.
macro_rules! choices {
    ($($T:ty: $path:literal as $name:literal;)*) => {$(
        impl $crate::plan::Field for $T {
            type Number = $T;
            type Given<'a> = $T;

            fn source(&self, _: &$crate::plan::SizeText<'_>) -> String {
                format!(concat!($name, "::{:?}"), self)
            }

            fn uses(&self, paths: &mut Vec<&'static str>) {
                paths.push($path);
            }

            fn number(&self, _: &$crate::plan::Symbols<'_>) -> $T {
                *self
            }

            fn give(number: &$T) -> $T {
                *number
            }
        }
    )*};
}
pub(crate) use choices;

plain_fields! {
    bool: |x| x.to_string();
    i32: |x| x.to_string();
    i64: |x| x.to_string();
    u8: |x| x.to_string();
    u32: |x| x.to_string();
    u64: |x| x.to_string();
    usize: |x| x.to_string();
    f32: |x| real(f64::from(*x), "f32", &format!("{x:?}"));
    f64: |x| real(*x, "f64", &format!("{x:?}"));
    f16: |x| format!("f16::from_bits({})", x.to_bits());
    bf16: |x| format!("bf16::from_bits({})", x.to_bits());
}

/// Returns a floating-point number as Rust source, infinity and NaN included.
fn real(x: f64, ty: &str, finite: &str) -> String {
    match x {
        _ if x.is_nan() => format!("{ty}::NAN"),
        f64::INFINITY => format!("{ty}::INFINITY"),
        f64::NEG_INFINITY => format!("{ty}::NEG_INFINITY"),
        _ => finite.to_owned(),
    }
}

impl Field for Dim {
    type Number = usize;
    type Given<'a> = usize;

    fn source(&self, sizes: &SizeText<'_>) -> String {
        sizes(self)
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        see(self);
    }

    fn number(&self, symbols: &Symbols<'_>) -> usize {
        // A negative size belongs to a call that an earlier check keeps from running.
        usize::try_from(self.eval(symbols)).unwrap_or(0)
    }

    fn give(number: &usize) -> usize {
        *number
    }
}

/// A number that may be negative, such as a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Signed(pub Dim);

impl Field for Signed {
    type Number = isize;
    type Given<'a> = isize;

    fn source(&self, sizes: &SizeText<'_>) -> String {
        if let Some(n) = self.0.known() {
            return n.to_string();
        }
        let (plus, minus) = self.0.parts();
        let signed = |size: &Dim| match (sizes(size), size.as_symbol()) {
            (text, Some(_)) => format!("{text} as isize"),
            (text, None) => format!("({text}) as isize"),
        };
        match (plus.known(), minus.known()) {
            (_, Some(0)) => signed(&plus),
            (Some(0), _) => format!("-({})", signed(&minus)),
            _ => format!("{} - {}", signed(&plus), signed(&minus)),
        }
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        see(&self.0);
    }

    fn number(&self, symbols: &Symbols<'_>) -> isize {
        isize::try_from(self.0.eval(symbols)).unwrap_or(0)
    }

    fn give(number: &isize) -> isize {
        *number
    }
}

/// A list of any length; a slice in the kernel's struct.
impl<F> Field for Vec<F>
where
    F: Field,
    F::Number: 'static,
{
    type Number = Vec<F::Number>;
    type Given<'a> = &'a [F::Number];

    fn source(&self, sizes: &SizeText<'_>) -> String {
        let items: Vec<String> = self.iter().map(|item| item.source(sizes)).collect();
        format!("&[{}]", items.join(", "))
    }

    fn uses(&self, paths: &mut Vec<&'static str>) {
        self.iter().for_each(|field| field.uses(paths));
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        self.iter().for_each(|field| field.visit(see));
    }

    fn number(&self, symbols: &Symbols<'_>) -> Vec<F::Number> {
        self.iter().map(|field| field.number(symbols)).collect()
    }

    fn give(number: &Vec<F::Number>) -> &[F::Number] {
        number
    }
}

/// A list of a fixed length; an array in the kernel's struct.
impl<F, const N: usize> Field for [F; N]
where
    F: Field,
    F::Number: Copy + 'static,
{
    type Number = [F::Number; N];
    type Given<'a> = [F::Number; N];

    fn source(&self, sizes: &SizeText<'_>) -> String {
        let items: Vec<String> = self.iter().map(|item| item.source(sizes)).collect();
        format!("[{}]", items.join(", "))
    }

    fn uses(&self, paths: &mut Vec<&'static str>) {
        self.iter().for_each(|field| field.uses(paths));
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        self.iter().for_each(|field| field.visit(see));
    }

    fn number(&self, symbols: &Symbols<'_>) -> [F::Number; N] {
        std::array::from_fn(|i| self[i].number(symbols))
    }

    fn give(number: &[F::Number; N]) -> [F::Number; N] {
        *number
    }
}

/// An optional value.
impl<F: Field> Field for Option<F> {
    type Number = Option<F::Number>;
    type Given<'a> = Option<F::Given<'a>>;

    fn source(&self, sizes: &SizeText<'_>) -> String {
        match self {
            Some(field) => format!("Some({})", field.source(sizes)),
            None => "None".into(),
        }
    }

    fn uses(&self, paths: &mut Vec<&'static str>) {
        self.iter().for_each(|field| field.uses(paths));
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        self.iter().for_each(|field| field.visit(see));
    }

    fn number(&self, symbols: &Symbols<'_>) -> Option<F::Number> {
        self.as_ref().map(|field| field.number(symbols))
    }

    fn give(number: &Option<F::Number>) -> Option<F::Given<'_>> {
        number.as_ref().map(F::give)
    }
}
