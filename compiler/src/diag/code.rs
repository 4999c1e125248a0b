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
// but not compiled. 4xx: training. 9xx: onnxc itself.
codes! {
    Io = 1: "\
        A file could not be read or written. The message has the system's own words; look at the \
        path, at the permissions, and at the space left on the disk."
    NotAModel = 2: "\
        The file is not an ONNX model. It is empty, cut short, of another format, or not UTF-8 \
        where the format wants text. A download that stopped, a pointer of Git LFS in place of \
        the file, and a file with external data given instead of the model are common causes."
    BadOption = 3: "\
        An option names something that the model does not have, or has a value that does not fit. \
        The notes say what the model has: its inputs for `--const`, its dimensions for `--dim`."
    BadSyntax = 4: "\
        The model is text, but the text does not follow ONNX's textual syntax. The message says \
        what was expected, and at which line and column."
    Refused = 5: "\
        The model compiled, but refuses the inputs that it was given. Their number, types or \
        sizes do not fit the model, or each other, or a value is not allowed."

    MissingField = 101: "\
        A field that the ONNX specification requires is absent or empty: the name of a graph, of \
        an input, of an attribute, or the operator of a node. Tools that write the file by hand \
        forget it; fill it in, any name that is not taken will do."
    BadField = 102: "\
        A field has a value that the ONNX specification does not allow. The message says which \
        field, what it has, and what it may have."
    BadTensor = 103: "\
        The data of a tensor does not fit its type and shape. There are too few or too many \
        entries: the product of `dims`, times what an element of `data_type` takes, must be the \
        size of the data. Or a truth value is neither 0 nor 1. The file was changed by hand, or \
        its writer is at fault; store the tensor again."
    BadExternalData = 104: "\
        A tensor stored in a file of its own cannot be read. The file is missing, too short, \
        outside the model's directory, reached through a link, or it has a second name. Put the \
        data file where the model says that it is, relative to the model; onnxc follows no links, \
        so that a model cannot make it read other files."
    DuplicateName = 105: "\
        A node gives its output a name that is taken. ONNX graphs are in single-assignment form: \
        a node's output must have a name that no input, initializer or other node has, in its own \
        graph and in those around it. Models that were merged without prefixes have this fault; \
        rename the output and its uses."
    UndefinedValue = 106: "\
        A node uses a value that nothing defines. The name is misspelled, an initializer was lost \
        (with external data that was not saved, or when the model was cut), or the node stands in \
        a function, whose body sees nothing but the function's inputs. Add it as an input or an \
        initializer, or remove the node."
    TooDeep = 107: "\
        Graphs, types or messages lie inside each other too deep. Binary files may nest messages \
        100 deep, which is 33 graphs, and text 32 deep; no real model comes near, and a model \
        that does was made to exhaust the stack of who reads it."
    NotSorted = 108: "\
        A node uses a value that only a later node makes. ONNX wants the nodes of a graph in \
        topological order, each behind those that it uses. Sort the nodes; where that is \
        impossible, they form a cycle, which ONNX does not allow: a loop is the operator `Loop`."
    UndefinedOutput = 109: "\
        Nothing in a graph defines one of its outputs. An output must be the output of a node, an \
        initializer or an input of that same graph; a branch of `If` or the body of a loop cannot \
        give back a value of the graph around it. Put an `Identity` node in between, or correct \
        the name."
    DuplicateInput = 110: "\
        Two inputs of a graph have the same name, so that nobody can tell which of the two a node \
        means. Rename one of them."
    UnknownOperator = 111: "\
        The operator does not exist in the operator set that the model imports. It is misspelled, \
        or was added in a later version than the one imported, or belongs to another domain; the \
        help says what comes nearest. Import the version that has it, or name its domain."
    UnknownDomain = 112: "\
        A node belongs to an operator set that is not imported. Each domain that nodes use must \
        stand in `opset_import` with a version, in a model and in each of its functions; without \
        the version nobody knows what the operator means."
    BadAttribute = 113: "\
        An attribute has a value that the operator does not allow. The message says which, and \
        where there are few allowed values, the notes list them."
    BadArity = 114: "\
        A node has too few or too many inputs or outputs for its operator, or leaves out (by an \
        empty name) one that is not optional. The message says what the operator takes in the \
        version that the model imports; versions differ, so a changed `opset_import` is a common \
        cause."
    Deprecated = 115: "\
        The operator was removed from ONNX before the version that the model imports. The help \
        names its successor where there is one; onnx's version converter rewrites some."
    MissingAttribute = 116: "\
        The operator requires an attribute that the node does not have. It has no default; the \
        specification of the operator, in the version that the model imports, says what it means."
    UnknownAttribute = 117: "\
        A node has an attribute that its operator does not know in the version that the model \
        imports. The name is misspelled, or the attribute came with a later version or went with \
        an earlier one. Names that start with two underscores are reserved for tools, and allowed \
        anywhere."
    AttributeType = 118: "\
        An attribute is of another type than its operator wants, or than the field that holds its \
        value. An `int` where a `float` is wanted is the usual case: ONNX does not convert \
        between them."
    DuplicateAttribute = 119: "\
        A node has two attributes of the same name. Which of the two counts differs from reader \
        to reader; remove one."
    AttributeValue = 120: "\
        An attribute has no value, or several. It must fill the one field that its type names, \
        and no other; a reference to an attribute of a function (`ref_attr_name`) fills none."
    IrVersion = 121: "\
        The version of the file format is missing, or newer than what onnxc knows. `ir_version` \
        says how the file is to be read: what a newer version may mean is not known here. A newer \
        onnxc may know it; else save the model for an older version."
    OpsetImport = 122: "\
        The list of imported operator sets is missing, or an entry is not allowed. Since IR \
        version 3 a model says in `opset_import` which version of which operator set it means, at \
        least one; versions are whole numbers from 1 on. Before IR version 3 the list must be \
        empty."
    ContradictingOpsets = 123: "\
        The same operator set is imported in two versions. `ai.onnx` and the empty domain are the \
        same. What the nodes mean depends on the version, and readers differ in which one they \
        take; keep the one that the model was written for."
    DuplicateKey = 124: "\
        A key stands twice in a list of named text, such as `metadata_props`. Readers differ in \
        which of the two counts; remove one."
    MissingType = 125: "\
        An input or output has no type, or a type without what it needs. Each input of a model \
        has an element type and a shape (its sizes may be unknown, the number of axes may not); a \
        sequence or an optional says of what, a map its keys and values. onnxc works out the \
        types of outputs by itself, so these may be left out."
    BadType = 126: "\
        A type is not one of ONNX. The number of an element type is unknown, keys of a map are \
        neither whole numbers nor strings, or an opaque type has no name."
    NegativeSize = 127: "\
        A size is a negative number. Tensors and types have sizes from 0 on. A size of a type \
        that is not known has a name (`dim_param`) or is left empty; the -1 that some exporters \
        write for it is taken, other numbers are not."
    EmptyNode = 128: "A node has neither inputs nor outputs, so it can do nothing. Remove it."
    DuplicateInitializer = 129: "\
        Two initializers of a graph have the same name, sparse ones included. Rename or remove \
        one; where both are equal, one is enough."
    InitializerNotInput = 130: "\
        An initializer is not among the inputs of its graph. Up to IR version 3 every initializer \
        had to be an input too; since version 4 one that is not is a constant. Raise \
        `ir_version`, or add the input."
    ElementType = 131: "\
        A tensor has no element type, or one that ONNX does not have. `data_type` must be a \
        number of `TensorProto.DataType` other than 0; a new number may be one of a newer ONNX."
    DataFields = 132: "\
        A tensor has its data in several fields, in none, or has data though it has no elements. \
        A tensor with elements fills one of `raw_data` and the typed fields, such as \
        `float_data`; one that is stored externally, or has a size of 0, fills none."
    DataField = 133: "\
        The data of a tensor is in a field that its element type is not stored in. `float` \
        belongs into `float_data`, types of up to 32 bits into `int32_data`, and so on; strings \
        belong into `string_data`, never into `raw_data`. `raw_data` holds all others."
    TensorTooLarge = 134: "\
        The number of elements of a tensor does not fit into 64 bits, or its bytes do not fit the \
        address space. No file can hold such a tensor; its `dims` are damaged or made up."
    BadText = 135: "\
        Text is not valid UTF-8. ONNX's strings, those in tensors and attributes included, are \
        UTF-8; bytes are stored as `uint8`."
    Segmented = 136: "\
        A tensor is stored in segments. The field exists in the file format, but no version of \
        ONNX says what it means, and no tool writes it."
    ExternalReference = 137: "\
        The description of where a tensor's external data lies is at fault. It has a `location`, \
        relative to the model and inside its directory, and perhaps `offset` and `length` in \
        bytes; each key stands once. The length must be what type and shape take."
    SparseForm = 138: "\
        The parts of a sparse tensor do not fit together. It has `values` along one axis, `dims` \
        that are positive, and `indices` of type int64: one number for each value, or one for \
        each value and axis."
    SparseIndices = 139: "\
        An index of a sparse tensor lies outside the tensor, or the indices are not in strictly \
        ascending order. Sort them, row by row, and add up what has the same place."
    Container = 140: "\
        The parts of a sequence, map or optional value do not fit together. `elem_type` says \
        which field holds the elements; a map has as many values as keys, its keys in `keys` or \
        `string_keys`, never both."
    DuplicateFunction = 151: "\
        Two functions have the same domain, name and overload, so that nobody can tell which of \
        the two a node calls. Remove one, or give it an overload of its own."
    RecursiveFunction = 152: "\
        A function calls itself, by itself or through others. ONNX functions are acyclic: the \
        body of a function stands for the node that calls it, which would never end. Loops are \
        written with `Loop` or `Scan`."
    FunctionLimit = 153: "\
        A model has more than 10 000 functions, or they call each other more than 100 deep. Both \
        are limits of onnx's own checker; no real model comes near, and a model that does was \
        made to exhaust who reads it. Inline some of the functions."
    FunctionImports = 154: "\
        A function imports a version of an operator set in which an operator differs from what it \
        is in the version that the model imports. Give the function the same `opset_import` as \
        the model."
    FunctionSignature = 155: "\
        A function has no name, or names an input, output or attribute twice. An attribute with a \
        default stands in `attribute_proto`, one without in `attribute`, none in both."
    AttributeReference = 156: "\
        An attribute refers to an attribute of the function around it, but there is no function \
        around it, or the function has none of that name. `ref_attr_name` means something in the \
        body of a function only; write the value in its place, or declare the attribute."
    DeviceConfiguration = 157: "\
        What the model says about devices contradicts itself. A configuration has a name and a \
        number of devices, and as many names of devices where it names them; a node refers to one \
        that there is. onnxc makes no use of it, but who does would fail."

    TypeMismatch = 201: "\
        A value has an element type, or a kind, that the operator does not allow there. The notes \
        show the types of the node's inputs and what is allowed; a `Cast` in between, or a newer \
        version of the operator set, is what usually helps."
    ShapeMismatch = 202: "\
        The sizes of the inputs do not fit together, or do not fit the operator. The notes show \
        the types of the node's inputs. Where a size was fixed with `--dim`, it may be the wrong \
        one."
    DeclaredMismatch = 203: "\
        The model declares a type for a value that differs from the one that its node gives it. \
        The model was changed without its declarations, or a node is not what its writer thought; \
        delete or correct the declaration."
    UnknownShape = 204: "\
        The number of axes of a value cannot be known before running, and code for any number of \
        axes is not generated. The model is valid. Constant shapes (`--const`), or declared \
        types, may settle it."
    NoGradient = 205: "\
        The model asks for a gradient along a path that has none. An operator on the path has no \
        derivative, or all paths go through operators whose derivative is zero everywhere; the \
        notes show the path."

    Unsupported = 301: "\
        The model is valid, but onnxc cannot compile this part of it yet; the message says which."
    TooLarge = 302: "\
        A size does not fit the address space, or passes a limit of the compiler. The limits keep \
        a hostile model from exhausting the machine that compiles it."
    NeedsHeap = 303: "\
        A size is unbounded, so the value needs the heap; bounding the dimension (`--dim \
        NAME=1..=N`) makes the memory static."
    UnsupportedOperator = 304: "\
        The operator is valid, but onnxc has no code for it. It is one of a domain that onnxc \
        does not know (a custom operator), or one of the few of ONNX that it cannot compile. A \
        function of that name in the model would be its code."
    NewerOperatorSet = 305: "\
        The model imports a version of an operator set that is newer than what onnxc knows, so \
        that operators may have changed their meaning. A newer onnxc may know it; onnx's version \
        converter brings a model down."
    Untrainable = 306: "\
        The model cannot be made one that can be trained, as it is. It has training information \
        already, has no weights of type float or double as initializers, or imports a version of \
        ONNX's operators that is too old for the loss; the message says which."

    TrainingVersion = 401: "\
        The model has training information, but is of a version that does not allow for it. \
        Training needs `ir_version` 7 or newer; besides, the operators of training need the \
        import of `ai.onnx.preview.training`."
    TrainingNames = 402: "\
        A training algorithm and the graph of the model do not fit together. A step runs the two \
        as one graph, so all names must differ: inputs are not declared again, and no value is \
        defined twice."
    InferenceReadsTraining = 403: "\
        The graph of the model uses a value that only a training algorithm defines. An algorithm \
        may read what the graph has, never the other way round; inference must work without \
        training."
    AmbiguousState = 404: "\
        A variable of training is an initializer of two graphs. State lives in one scope that all \
        graphs share, so its name must be that of one initializer alone; rename it in one \
        algorithm."
    InitKey = 411: "\
        The key of an initialization binding is no variable. It must name an initializer, a dense \
        one, of the model's graph or of the algorithm of the same training information."
    InitValue = 412: "\
        The value of an initialization binding is not an output of the initialization graph."
    InitDuplicate = 413: "\
        Two initialization bindings of one training information assign to the same variable; keep \
        one."
    InitType = 414: "\
        An initialization binding assigns a value of another type or shape than its variable has."
    InitMissing = 415: "\
        There are initialization bindings, but no initialization graph. The graph may be left out \
        only together with the bindings."
    InitInputs = 416: "\
        The initialization graph has inputs. It stands alone and computes first values from \
        constants and random numbers; nobody can give it inputs."
    UpdateKey = 421: "\
        The key of an update binding is no variable. It must name an initializer, a dense one, of \
        the model's graph or of the algorithm of the same training information; inputs and \
        outputs of nodes cannot be assigned to."
    UpdateValue = 422: "\
        The value of an update binding is neither an output of the algorithm nor one of the \
        model's graph. Values inside, and those of other algorithms, must first be made outputs."
    UpdateDuplicate = 423: "\
        Two update bindings assign to the same variable, perhaps in two algorithms. A variable is \
        assigned once in an iteration."
    UpdateType = 424: "\
        An update binding assigns a value of another type or shape than its variable has."
    GradientOf = 431: "\
        The attribute `y` of a `Gradient` names no tensor of its graph. The node that computes \
        the loss is missing, or the name is misspelled."
    GradientBy = 432: "\
        The attribute `xs` or `zs` of a `Gradient` names no tensor of its graph, or names one \
        twice."
    GradientArity = 433: "\
        A `Gradient` has as many inputs as `xs` and `zs` have names, and at most as many outputs \
        as `xs`. The inputs are the values at which the derivative is taken, in the order of the \
        names."
    GradientType = 434: "\
        A tensor of a `Gradient` cannot be derived by, or the value given for it is of another \
        type. `y` and `xs` are of type float16, float or double, and each input has the type and \
        shape of the tensor that it stands for."
    GradientDeadPath = 435: "\
        The result depends on a variable, but only through operators without a derivative, such \
        as comparisons, rounding or casts to whole numbers. Its gradient would be zero \
        everywhere, and training would do nothing; use a differentiable loss."
    GradientCycle = 436: "\
        What a `Gradient` derives depends on its own output. `y` is not an input of the node, so \
        the order of nodes does not show it, but the gradient would have to be known before it is \
        computed."
    OptimizerInputs = 441: "\
        An optimizer has a number of inputs that does not fit. Behind `R` and `T` come the \
        tensors, their gradients and their states, as many of each: 2 + 3n inputs for Adagrad and \
        Momentum, 2 + 4n for Adam; outputs are the tensors and states alone."

    Internal = 900: "\
        onnxc broke one of its own rules. This is a bug of onnxc; please report it with the \
        model."
}

impl Code {
    /// The kind of that number.
    pub fn from_number(number: u32) -> Option<Code> {
        Code::ALL.iter().copied().find(|&code| code as u32 == number)
    }

    /// Whether the model is at fault, and not the compiler, which knows less than the format does.
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
            "A size does not fit the address space, or passes a limit of the compiler"
        );
    }
}
