//! The codes of diagnostics, with their numbers and explanations.

use std::fmt;

/// Defines the codes: name, number and explanation.
macro_rules! codes {
    ($($name:ident = $number:literal: $explanation:literal)*) => {
        /// The code of a diagnostic. Its number never changes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $explanation] $name = $number,)*
        }

        impl Code {
            /// All codes, by number.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// Explains the diagnostic in a paragraph, whose first sentence stands alone.
            pub fn explanation(self) -> &'static str {
                match self {
                    $(Code::$name => $explanation,)*
                }
            }
        }
    };
}

// 0xx: files and the command line. 1xx: rules of the file format. 2xx: types and sizes. 3xx: valid,
// but not compiled, or not as it is written. 4xx: training. 9xx: onnxc itself.
codes! {
    Io = 1: "\
        A file could not be read or written. The message is the operating system's. Check the \
        path, the permissions, and the free space on the disk."
    NotAModel = 2: "\
        The file is not an ONNX model. It is empty, truncated, in another format, or contains \
        text that is not UTF-8. Common causes are an interrupted download, a Git LFS pointer in \
        place of the file, and an external data file that was given instead of the model."
    BadOption = 3: "\
        An option names something that the model does not have, or has an invalid value. The \
        notes list what the model has, such as its inputs for `--const` and its dimensions for \
        `--dim`."
    BadSyntax = 4: "\
        The model is text, but does not follow ONNX's textual syntax. The message says what was \
        expected, with the line and the column."
    Refused = 5: "\
        The model compiled, but the given inputs do not fit it. Their number, types or sizes \
        differ from those of the model, their sizes contradict each other, or a value is not \
        allowed."

    MissingField = 101: "\
        A field that the ONNX specification requires is absent or empty, such as the name of a \
        graph, of an input or of an attribute, or the operator of a node. Models that were \
        written by hand often lack one. Any unused name will do. onnxc only warns about a graph \
        without a name, and about an initializer without a name, which no node can read."
    BadField = 102: "\
        A field has a value that the ONNX specification does not allow. The message names the \
        field and says what is wrong with it."
    BadTensor = 103: "\
        The data of a tensor does not fit its type and shape. The number of elements (the product \
        of `dims`), times the size of an element of `data_type`, must be the size of the data. A \
        boolean that is neither 0 nor 1 is an error too. Write the tensor again."
    BadExternalData = 104: "\
        A tensor in an external data file cannot be read. The file is missing, too short, outside \
        the model's directory, reached through a link, or has a second name (a hard link). Put \
        the file at the location that the model names, relative to the model. onnxc follows no \
        links, so that a model cannot make it read other files."
    DuplicateName = 105: "\
        A node gives its output a name that is already in use. ONNX graphs are in \
        single-assignment form: the output of a node must have a name that no input, initializer \
        or other node has, in its own graph and in the graphs around it. Models that were merged \
        without prefixes often have this error. Rename the output and its uses."
    UndefinedValue = 106: "\
        A node uses a value that nothing defines. The name is misspelled, an initializer was lost \
        (its external data was not saved, or the model was cut into parts), or the node is in a \
        function, whose body sees only the inputs of the function. Add the value as an input or \
        an initializer, or remove the node."
    TooDeep = 107: "\
        Graphs, types or messages are nested too deeply. Binary files may nest messages 100 deep, \
        which is 33 graphs, and text 32 deep. No real model comes near this limit, which protects \
        the stack of the compiler from hostile models."
    NotSorted = 108: "\
        A node uses a value that only a later node computes. ONNX requires the nodes of a graph \
        in topological order, each after the nodes whose outputs it uses. onnxc sorts the nodes \
        and warns, but other tools reject the model: sort them, or write the model again with \
        `onnxc optimize`."
    UndefinedOutput = 109: "\
        Nothing in a graph defines one of its outputs. An output must be the output of a node, an \
        initializer or an input of the same graph. A branch of `If` or the body of a loop cannot \
        return a value of the graph around it: put an `Identity` node in between, or correct the \
        name."
    DuplicateInput = 110: "\
        Two inputs of a graph have the same name, so that it is unclear which one a node uses. \
        Rename one of them."
    UnknownOperator = 111: "\
        The operator does not exist in the operator set that the model imports. It is misspelled, \
        was added in a later version than the imported one, or belongs to another domain. The \
        help names the most similar operator. Import the version that has it, or name its domain."
    UnknownDomain = 112: "\
        A node belongs to an operator set that is not imported. A model, and each of its \
        functions, must list every domain that its nodes use in `opset_import`, with a version. \
        The meaning of an operator depends on the version. For `com.microsoft` and `ai.onnx.ml`, \
        a model may omit it: onnxc assumes the newest version and warns."
    BadAttribute = 113: "\
        An attribute has a value that the operator does not allow. The message says which. If few \
        values are allowed, the notes list them."
    BadArity = 114: "\
        A node has too few or too many inputs or outputs for its operator, or omits (by an empty \
        name) one that is not optional. The message says what the operator takes in the version \
        that the model imports. Versions differ, so a changed `opset_import` is a common cause."
    Deprecated = 115: "\
        The operator was removed from ONNX before the version that the model imports. The help \
        names its successor, if there is one. onnx's version converter rewrites some of these \
        operators. onnxc only warns about `GroupNormalization` of version 18, which other runtimes \
        run."
    MissingAttribute = 116: "\
        The operator requires an attribute that the node does not have. The attribute has no \
        default. The specification of the operator, in the version that the model imports, \
        explains its meaning. onnxc only warns about a `Split` without `num_outputs`, which it \
        takes from the number of outputs."
    UnknownAttribute = 117: "\
        A node has an attribute that its operator does not have in the version that the model \
        imports. The name is misspelled, or the attribute was added in a later version or removed \
        in an earlier one. Names that start with two underscores are reserved for tools, and \
        allowed anywhere."
    AttributeType = 118: "\
        An attribute has another type than its operator requires, or than the field that holds \
        its value. The usual cause is an `int` in place of a `float`: ONNX does not convert \
        between them."
    DuplicateAttribute = 119: "\
        A node has two attributes of the same name. Readers of ONNX differ in which one they use. \
        Remove one."
    AttributeValue = 120: "\
        An attribute has no value, or several. It must set the one field that its type names, and \
        no other. A reference to an attribute of a function (`ref_attr_name`) sets none."
    IrVersion = 121: "\
        The version of the file format is missing, or newer than onnxc supports. `ir_version` \
        determines how the file is read, and onnxc does not know the rules of newer versions. Use \
        a newer onnxc, or save the model for an older version. For a version of 0, onnxc assumes \
        the newest and warns."
    OpsetImport = 122: "\
        The list of imported operator sets is missing, or one of its entries is not allowed. \
        Since IR version 3, `opset_import` lists at least one operator set with its version, an \
        integer from 1 on. Before IR version 3, the list must be empty."
    ContradictingOpsets = 123: "\
        The same operator set is imported in two versions. `ai.onnx` and the empty domain are the \
        same operator set. The meaning of the nodes depends on the version, and readers of ONNX \
        differ in which one they use. Keep the version for which the model was written."
    DuplicateKey = 124: "\
        A key occurs twice in a list of keys and values, such as `metadata_props`. Readers of \
        ONNX differ in which one they use. Remove one."
    MissingType = 125: "\
        An input or output has no type, or an incomplete one. An input of a model has an element \
        type; its sizes may be unknown, and `--shape` sets a missing shape. The type of a \
        sequence or an optional has that of its content, and the type of a map those of its keys \
        and values. ONNX requires the shapes of inputs and the types of outputs too, and `onnxc \
        check` reports them; they compile without a warning, since onnxc infers the types of \
        outputs."
    BadType = 126: "\
        A type is not one of ONNX. The number of an element type is unknown, the keys of a map \
        are neither integers nor strings, or an opaque type has no name."
    NegativeSize = 127: "\
        A size is a negative number. Tensors and types have sizes from 0 on. An unknown size in a \
        type has a name (`dim_param`) or is left empty. The -1 that some exporters write for it \
        is accepted, and other negative numbers are not."
    EmptyNode = 128: "A node has neither inputs nor outputs, so it has no effect. Remove it."
    DuplicateInitializer = 129: "\
        Two initializers of a graph, dense or sparse, have the same name. Rename or remove one. \
        If both are equal, onnxc uses one and warns."
    InitializerNotInput = 130: "\
        An initializer is not among the inputs of its graph. Up to IR version 3, every \
        initializer must be an input too. Since version 4, an initializer that is not an input is \
        a constant, and onnxc reads it so in older files too, with a warning. Raise `ir_version`, \
        or add the input."
    ElementType = 131: "\
        A tensor has no element type, or one that ONNX does not have. `data_type` must be a \
        number of `TensorProto.DataType` other than 0. An unknown number may belong to a newer \
        version of ONNX."
    DataFields = 132: "\
        A tensor has its data in several fields, in none, or has data though it has no elements. \
        A tensor with elements sets either `raw_data` or one of the typed fields, such as \
        `float_data`. A tensor that is stored externally, or has a size of 0, sets none."
    DataField = 133: "\
        The data of a tensor is in a field that does not store its element type. `float` belongs \
        in `float_data`, types of up to 32 bits in `int32_data`, and so on. Strings belong in \
        `string_data`, and never in `raw_data`, which stores all other types."
    TensorTooLarge = 134: "\
        The number of elements of a tensor does not fit into 64 bits, or its bytes do not fit the \
        address space. No file can hold this tensor: its `dims` are corrupt."
    BadText = 135: "\
        Text is not valid UTF-8. All strings of ONNX are UTF-8, including those in tensors and \
        attributes. Store bytes as `uint8`."
    Segmented = 136: "\
        A tensor is stored in segments. The field exists in the file format, but no version of \
        ONNX defines its meaning, and no tool writes it."
    ExternalReference = 137: "\
        The description of a tensor's external data is invalid. It has a `location`, relative to \
        the model and inside its directory, and may have an `offset` and a `length` in bytes. \
        Each key occurs once. The length must be that of the type and shape."
    SparseForm = 138: "\
        The parts of a sparse tensor do not fit together. It has `values` along one axis, \
        positive `dims`, and `indices` of type int64: one number for each value, or one for each \
        value and axis."
    SparseIndices = 139: "\
        An index of a sparse tensor lies outside the tensor, or the indices are not in strictly \
        ascending order. Sort them row by row, and add up values with the same index."
    Container = 140: "\
        The parts of a sequence, map or optional value do not fit together. `elem_type` names the \
        field that holds the elements. A map has as many values as keys, and its keys are in \
        `keys` or `string_keys`, never in both."
    Cycle = 141: "\
        Nodes form a cycle: each uses an output of the one before it, and the first uses an \
        output of the last. The notes list them in this order. ONNX graphs are acyclic, and a \
        loop is the operator `Loop`. A name that is used twice is a common cause."
    DuplicateFunction = 151: "\
        Two functions have the same domain, name and overload, so that it is unclear which one a \
        node calls. Remove one, or give it another overload."
    RecursiveFunction = 152: "\
        A function calls itself, directly or through others. ONNX functions are acyclic: the body \
        of a function replaces the node that calls it, which would never end. Loops are written \
        with `Loop` or `Scan`."
    FunctionLimit = 153: "\
        A model has more than 10 000 functions, or they call each other more than 100 deep. Both \
        are limits of onnx's own checker. No real model comes near them, and they protect the \
        compiler from hostile models. Inline some of the functions."
    FunctionImports = 154: "\
        A function imports another version of an operator set than the model, and the two \
        versions define one of its operators differently. Give the function the same \
        `opset_import` as the model."
    FunctionSignature = 155: "\
        A function has no name, or names an input, output or attribute twice. An attribute with a \
        default is listed in `attribute_proto`, one without in `attribute`, and none in both."
    AttributeReference = 156: "\
        An attribute refers to an attribute of the function around it, but there is no function \
        around it, or the function has no attribute of that name. `ref_attr_name` has a meaning \
        only in the body of a function. Write the value in its place, or declare the attribute."
    DeviceConfiguration = 157: "\
        The device configuration of the model contradicts itself. A configuration has a name and \
        a number of devices and, if it names the devices, as many names. A node refers to an \
        existing configuration. onnxc ignores it, but a tool that uses it would fail."

    TypeMismatch = 201: "\
        A value has an element type, or a kind, that the operator does not allow there. The notes \
        show the types of the node's inputs and the allowed types. A `Cast` in between, or a \
        newer version of the operator set, usually helps."
    ShapeMismatch = 202: "\
        The sizes of the inputs do not fit together, or do not fit the operator. The notes show \
        the types of the node's inputs. A size that was fixed with `--dim` may be the wrong one."
    DeclaredMismatch = 203: "\
        The model declares a type for a value that differs from the inferred one. The model was \
        changed without its declarations, or a node does not compute what its author intended. If \
        only the shapes differ, or the value is no output of the model, onnxc uses the inferred \
        type and warns. Delete or correct the declaration."
    UnknownShape = 204: "\
        The rank of a value is unknown until the model runs, and onnxc generates code for known \
        ranks only. The model is valid. Declare the axes of the value that the message names \
        (`--shape`). Constant shapes (`--const`) and fixed sizes (`--dim`) may determine the \
        rank, too. A loop-carried value must keep its rank: start with axes of size 1, or of size \
        0 where elements are appended."
    NoGradient = 205: "\
        The model asks for a gradient along a path that has none. An operator on the path has no \
        derivative, or all paths go through operators whose derivative is zero everywhere. The \
        notes show the path."

    Unsupported = 301: "\
        The model is valid, but onnxc cannot compile this part of it yet. The message says which \
        part."
    TooLarge = 302: "\
        A size exceeds the address space or a limit of the compiler. The limits keep a hostile \
        model from exhausting the machine that compiles it."
    NeedsHeap = 303: "\
        A size is unbounded, so the value needs the heap. Bound the dimension (`--dim \
        NAME=1..=N`) to make the memory static."
    UnsupportedOperator = 304: "\
        The operator is valid, but onnxc has no code for it. It belongs to a domain that onnxc \
        does not know (a custom operator), or is one of the few operators of ONNX that onnxc \
        cannot compile. Add a function of that name to the model, or bind the operator to a \
        function of your program (`--custom`)."
    NewerOperatorSet = 305: "\
        The model imports a version of an operator set that is newer than onnxc supports, so that \
        operators may have another meaning. Use a newer onnxc, or convert the model to an older \
        version with onnx's version converter."
    Untrainable = 306: "\
        Training cannot be added to the model. The model has training information already, has no \
        weights of type float or double as initializers, or imports a version of ONNX's operators \
        that is too old for the loss. The message says which."
    UnreadOutputs = 307: "\
        A node of an old operator set version has outputs that nothing reads, and that later \
        versions of the operator do not have. Before version 14, more than one output of \
        `BatchNormalization` meant training. Exporters wrote those outputs into models for \
        inference too, so onnxc leaves them out and normalizes by the mean and variance of the \
        model. If the model is meant to train, make one of the outputs an output of the graph."
    UnknownSize = 308: "\
        An input declares a size of -1 or 0. Some exporters write both for a size that is not \
        known. A -1 always means that. A 0 means it only if the model cannot \
        be compiled with empty inputs, or if all its outputs would be empty. The size is then \
        free, and named after the input and the axis: `--dim NAME=N` sets it. In the file, an \
        unknown size has a name (`dim_param`) or no value."
    EmptyOutputs = 309: "\
        A node makes an empty tensor of inputs that have elements, or the model computes nothing \
        but empty tensors. The window of the convolution or pool is larger than the padded image, \
        or a size is set to 0, as by `--dim n=0`. If the size may change from run to run, leave it \
        free: a free size may be 0."

    TrainingVersion = 401: "\
        The model has training information, but its version does not allow it. Training needs \
        `ir_version` 7 or newer, and its operators need the import of `ai.onnx.preview.training`."
    TrainingNames = 402: "\
        A training algorithm and the graph of the model use the same names. A step runs the two \
        as one graph, so all names must differ: an input is declared once, and a value is defined \
        once."
    InferenceReadsTraining = 403: "\
        The graph of the model uses a value that only a training algorithm defines. An algorithm \
        may read values of the graph, but not the other way round: inference must work without \
        training."
    AmbiguousState = 404: "\
        A variable of training is an initializer of two graphs. All graphs share one scope of \
        variables, so only one initializer may have this name. Rename one of them."
    InitKey = 411: "\
        The key of an initialization binding is not a variable. It must name a dense initializer \
        of the model's graph or of the algorithm of the same training information."
    InitValue = 412: "\
        The value of an initialization binding is not an output of the initialization graph."
    InitDuplicate = 413: "\
        Two initialization bindings of one training information assign to the same variable. Keep \
        one."
    InitType = 414: "\
        An initialization binding assigns a value whose type or shape differs from that of its \
        variable."
    InitMissing = 415: "\
        There are initialization bindings, but no initialization graph. The graph may be omitted \
        only together with the bindings."
    InitInputs = 416: "\
        The initialization graph has inputs. It runs alone and computes initial values from \
        constants and random numbers, so nothing can supply its inputs."
    UpdateKey = 421: "\
        The key of an update binding is not a variable. It must name a dense initializer of the \
        model's graph or of the algorithm of the same training information. Inputs, and outputs \
        of nodes, cannot be assigned to."
    UpdateValue = 422: "\
        The value of an update binding is neither an output of the algorithm nor one of the \
        model's graph. A value inside a graph, or of another algorithm, must be made an output \
        first."
    UpdateDuplicate = 423: "\
        Two update bindings assign to the same variable, possibly in two algorithms. An iteration \
        assigns to a variable once."
    UpdateType = 424: "\
        An update binding assigns a value whose type or shape differs from that of its variable."
    GradientOf = 431: "\
        The attribute `y` of a `Gradient` names no tensor of its graph. The node that computes \
        the loss is missing, or the name is misspelled."
    GradientBy = 432: "\
        The attribute `xs` or `zs` of a `Gradient` names no tensor of its graph, or names one \
        twice."
    GradientArity = 433: "\
        A `Gradient` has the wrong number of inputs or outputs. It has as many inputs as `xs` and \
        `zs` have names, and at most as many outputs as `xs`. The inputs are the values at which \
        the derivative is taken, in the order of the names."
    GradientType = 434: "\
        A tensor of a `Gradient` has no derivative, or the value given for it has another type. \
        `y` and `xs` have type float16, float or double, and each input has the type and shape of \
        the tensor that it replaces."
    GradientDeadPath = 435: "\
        The result depends on a variable, but only through operators without a derivative, such \
        as comparisons, rounding or casts to integers. Its gradient would be zero everywhere, and \
        training would do nothing. Use a differentiable loss."
    GradientCycle = 436: "\
        The value `y` of a `Gradient` depends on an output of the same node. `y` is not an input \
        of the node, so the order of nodes does not show the cycle, but the gradient would be \
        needed before it is computed."
    OptimizerInputs = 441: "\
        An optimizer has the wrong number of inputs. After `R` and `T` come the tensors, their \
        gradients and their states, in equal numbers: 2 + 3n inputs for Adagrad and Momentum, 2 + \
        4n for Adam. The outputs are the tensors and the states alone."

    Internal = 900: "\
        onnxc broke one of its own invariants. This is a bug of onnxc. Please report it with the \
        model."
}

impl Code {
    /// Returns the code with this number.
    pub fn from_number(number: u32) -> Option<Code> {
        Code::ALL.iter().copied().find(|&code| code as u32 == number)
    }

    /// Returns whether the code is about an invalid model. The other codes are about limits of
    /// onnxc.
    pub fn is_invalidity(self) -> bool {
        let is_limit = matches!(self, Code::UnknownShape | Code::NoGradient | Code::Internal);
        !is_limit && !(300..400).contains(&(self as u32))
    }

    /// The first sentence of the explanation.
    pub fn summary(self) -> &'static str {
        let text = self.explanation();
        let end = text.match_indices(['.', ';']).map(|(at, _)| at);
        let mut ends =
            end.filter(|at| text[at + 1..].starts_with([' ', '\n']) || at + 1 == text.len());
        ends.next().map_or(text, |end| &text[..end])
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", *self as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_unique() {
        assert!(Code::ALL.windows(2).all(|pair| (pair[0] as u32) < pair[1] as u32));
        assert_eq!(Code::from_number(202), Some(Code::ShapeMismatch));
    }

    #[test]
    fn every_explanation_starts_with_a_sentence_of_its_own() {
        for code in Code::ALL {
            assert!(code.explanation().ends_with('.'), "{code}");
            assert!((20..200).contains(&code.summary().len()), "{code}: {}", code.summary());
        }
        assert_eq!(
            Code::TooLarge.summary(),
            "A size exceeds the address space or a limit of the compiler"
        );
    }
}
