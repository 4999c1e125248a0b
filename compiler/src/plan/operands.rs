//! Structs in which kernels take operands by name.

/// A struct in which a kernel takes several of its inputs or outputs.
///
/// A field has the index of its input or output in the call. A call in place counts from the first
/// input that it does not overwrite.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The name of the variable for the struct.
    pub variable: &'static str,
    /// The path of the struct in the runtime library.
    pub path: &'static str,
    /// The fields.
    pub fields: &'static [(&'static str, Source)],
}

/// The source of a field of [`Operands`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The input of this index.
    Input(usize),
    /// The output of this index.
    Output(usize),
}

/// Parts of `kernel!`: the table of the structs, and the variables with them.
macro_rules! operands {
    (table $($variable:ident: $home:ident :: $Struct:ident {
        $($field:ident: $method:ident($index:literal)),* $(,)?
    }),* $(,)?) => {
        &[$($crate::plan::Operands {
            variable: stringify!($variable),
            path: concat!("kernels::", stringify!($home), "::", stringify!($Struct)),
            fields: &[$((stringify!($field), $crate::plan::operands!(source $method $index))),*],
        }),*]
    };
    (bind $args:ident $($variable:ident: $home:ident :: $Struct:ident {
        $($field:ident: $method:ident($index:literal)),* $(,)?
    }),* $(,)?) => {
        $(let $variable = onnxc_runtime::kernels::$home::$Struct {
            $($field: $args.$method($index)),*
        };)*
    };
    (source input $index:literal) => { $crate::plan::Source::Input($index) };
    (source optional $index:literal) => { $crate::plan::Source::Input($index) };
    (source output $index:literal) => { $crate::plan::Source::Output($index) };
    (source optional_output $index:literal) => { $crate::plan::Source::Output($index) };
}
pub(crate) use operands;
