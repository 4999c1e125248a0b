//! Indexing, padding and sampling operators, most of which ONNX adopted later.

use super::{
    super::{Entry, microsoft_function},
    Passed, in_angles, pass_attributes,
};
use crate::{
    diag::{Code, Diagnostic, Result, counted},
    ir::Reader,
    ty::MAX_RANK,
};

pub const OPS: &[Entry] = &[
    microsoft_function("CDist", distances),
    microsoft_function("CropAndResize", crop_and_resize),
    microsoft_function("ExpandDims", |node| {
        // ONNX Runtime's optimizer fails on a `Reshape` before the `Unsqueeze`.
        let axes = match node.rank(1) {
            Ok(0) => "first = Constant <value_ints = [0]> () axes = Unsqueeze (wide, first)",
            Ok(_) => "axes = Identity (wide)",
            Err(_) => "one = Constant <value_ints = [1]> () axes = Reshape (wide, one)",
        };
        Ok(format!(
            "(x, axis) => (y) {{ wide = Cast <to = 7> (axis) {axes} y = Unsqueeze (x, axes) }}"
        ))
    }),
    microsoft_function("GatherND", |_| {
        let text = "(x, indices) => (y) {
            wide = Cast <to = 7> (indices)
            y = GatherND (x, wide)
        }";
        Ok(text.to_owned())
    }),
    microsoft_function("GridSample", grid_sample),
    microsoft_function("Irfft", inverse_real_transform),
    microsoft_function("Pad", pad),
    microsoft_function("Range", range),
    microsoft_function("Rfft", real_transform),
    microsoft_function("SampleOp", |_| Ok("(x) => (y) { y = Identity (x) }".to_owned())),
    microsoft_function("Trilu", |node| {
        let attributes = in_angles(&pass_attributes(node, &[Passed::Int("upper")])?);
        Ok(format!("(x, k) => (y) {{ y = Trilu {attributes} (x, k) }}"))
    }),
    microsoft_function("UnfoldTensor", unfold),
    microsoft_function("Unique", |_| {
        let text = "(x) => (y, idx, counts) { y, first, idx, counts = Unique <sorted = 0> (x) }";
        Ok(text.to_owned())
    }),
];

/// The distances of the rows of two matrices, as `a² + b² - 2ab`.
fn distances(node: &mut Reader<'_>) -> Result<String> {
    let metric = node.string("metric", "sqeuclidean")?;
    let last = match metric.as_str() {
        "euclidean" => "c = Sqrt (positive)",
        "sqeuclidean" => "c = Identity (positive)",
        _ => {
            let message = format!("the `metric` `{metric}` is not supported");
            return Err(Diagnostic::new(Code::Unsupported, message)
                .note("supported: euclidean, sqeuclidean"));
        }
    };
    Ok(format!(
        "(a, b) => (c) {{
            axes = Constant <value_ints = [1]> ()
            of_a = ReduceSumSquare (a, axes)
            column = ReduceSumSquare (b, axes)
            of_b = Transpose <perm = [1, 0]> (column)
            right = Transpose <perm = [1, 0]> (b)
            product = MatMul (a, right)
            twice = Add (product, product)
            sums = Add (of_a, of_b)
            squares = Sub (sums, twice)
            positive = Relu (squares)
            {last}
        }}"
    ))
}

/// Resizes a box of an image for each row of `rois`. Positions outside the image have the value
/// `extrapolation_value`. The nearest pixel of a position halfway between two is the farther one.
/// Positions are rounded first, because `GridSample` rounds to even.
fn crop_and_resize(node: &mut Reader<'_>) -> Result<String> {
    let outside = node.float("extrapolation_value", 0.0)?;
    let mode = node.choice("mode", &[("bilinear", "linear"), ("nearest", "nearest")])?;
    let pixel = match mode {
        "nearest" => |name: &str| {
            format!("{name}_up = Add ({name}_place, half) {name}_pixel = Floor ({name}_up)")
        },
        _ => |name: &str| format!("{name}_pixel = Identity ({name}_place)"),
    };
    let axis = |name: &str, i: usize| {
        // The positions in pixels, whether they are in the image, and their shares of the axis. A
        // box of one position has it in the middle.
        format!(
            "{name}_start = Slice (boxes, at{i}, at{j}, one)
            {name}_end = Slice (boxes, at{k}, at{l}, one)
            {name}_count = Slice (counts, at{i}, at{j}, zero)
            {name}_scalar = Squeeze ({name}_count)
            {name}_index = Range (origin, {name}_scalar, step)
            {name}_real = Cast <to = 1> ({name}_index)
            {name}_less = Sub ({name}_scalar, step)
            {name}_steps = Max ({name}_less, step)
            {name}_steps_real = Cast <to = 1> ({name}_steps)
            {name}_size = Shape <start = {axis}, end = {next}> (images)
            {name}_size_scalar = Squeeze ({name}_size)
            {name}_last_int = Sub ({name}_size_scalar, step)
            {name}_last = Cast <to = 1> ({name}_last_int)
            {name}_first = Mul ({name}_start, {name}_last)
            {name}_len = Sub ({name}_end, {name}_start)
            {name}_pixels = Mul ({name}_len, {name}_last)
            {name}_stride = Div ({name}_pixels, {name}_steps_real)
            {name}_offset = Mul ({name}_stride, {name}_real)
            {name}_ramp = Add ({name}_first, {name}_offset)
            {name}_sum = Add ({name}_start, {name}_end)
            {name}_mean = Mul ({name}_sum, half)
            {name}_middle = Mul ({name}_mean, {name}_last)
            {name}_is_one = Equal ({name}_scalar, step)
            {name}_place = Where ({name}_is_one, {name}_middle, {name}_ramp)
            {name}_above = GreaterOrEqual ({name}_place, low)
            {name}_below = LessOrEqual ({name}_place, {name}_last)
            {name}_inside = And ({name}_above, {name}_below)
            {pixel}
            {name}_divisor = Max ({name}_last, high)
            {name} = Div ({name}_pixel, {name}_divisor)",
            pixel = pixel(name),
            axis = i + 2,
            next = i + 3,
            j = i + 1,
            k = i + 2,
            l = i + 3,
        )
    };
    let (y, x) = (axis("v", 0), axis("u", 1));
    Ok(format!(
        "(images, boxes, batch_indices, crop_size) => (crops) {{
            at0 = Constant <value_ints = [0]> () at1 = Constant <value_ints = [1]> ()
            at2 = Constant <value_ints = [2]> () at3 = Constant <value_ints = [3]> ()
            at4 = Constant <value_ints = [4]> ()
            zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
            origin = Constant <value_int = 0> () step = Constant <value_int = 1> ()
            low = Constant <value_float = 0.0> () high = Constant <value_float = 1.0> ()
            half = Constant <value_float = 0.5> () two = Constant <value_float = 2.0> ()
            counts = Cast <to = 7> (crop_size)
            {y} {x}
            rows_axis = Constant <value_ints = [2]> () columns_axis = Constant <value_ints = [1]> ()
            rows = Unsqueeze (v, rows_axis) columns = Unsqueeze (u, columns_axis)
            rows_inside = Unsqueeze (v_inside, rows_axis)
            columns_inside = Unsqueeze (u_inside, columns_axis)
            rows_two = Mul (rows, two) rows_unit = Sub (rows_two, high)
            columns_two = Mul (columns, two) columns_unit = Sub (columns_two, high)
            rows_zero = Sub (rows_unit, rows_unit) columns_zero = Sub (columns_unit, columns_unit)
            grid_y = Add (rows_unit, columns_zero) grid_x = Add (columns_unit, rows_zero)
            last = Constant <value_ints = [3]> ()
            grid_y_last = Unsqueeze (grid_y, last) grid_x_last = Unsqueeze (grid_x, last)
            grid = Concat <axis = 3> (grid_x_last, grid_y_last)
            chosen = Gather (images, batch_indices)
            sampled = GridSample <mode = \"{mode}\", padding_mode = \"border\", align_corners = 1>
                (chosen, grid)
            inside_image = And (rows_inside, columns_inside)
            inside = Unsqueeze (inside_image, one)
            outside = Constant <value_float = {outside:?}> ()
            crops = Where (inside, sampled, outside)
        }}"
    ))
}

/// ONNX's `GridSample`, with the names of the modes that PyTorch has.
fn grid_sample(node: &mut Reader<'_>) -> Result<String> {
    let modes = [("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic")];
    let mode = node.choice("mode", &modes)?;
    let mut attributes =
        pass_attributes(node, &[Passed::Int("align_corners"), Passed::Text("padding_mode")])?;
    attributes.push(format!("mode = \"{mode}\""));
    let attributes = in_angles(&attributes);
    Ok(format!("(x, grid) => (y) {{ y = GridSample {attributes} (x, grid) }}"))
}

/// Reads the number of axes of a transformed signal.
fn signal_axes(node: &mut Reader<'_>) -> Result<i64> {
    for (name, only) in [("onesided", 1), ("normalized", 0)] {
        let value = node.int(name, only)?;
        if value != only {
            let message = format!("`{name}` is {value}, but must be {only}");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
    }
    let axes = node.int("signal_ndim", 1)?;
    // A signal has at least as many axes, so none has more than a value may have.
    let most = MAX_RANK as i64;
    if (1..=most).contains(&axes) {
        return Ok(axes);
    }
    let message = format!("`signal_ndim` is {axes}, but must be from 1 to {most}");
    Err(Diagnostic::new(Code::BadAttribute, message))
}

/// Writes the transform `from` to `to` along the axis that is `before` axes before the parts.
fn transform(attributes: &str, before: i64, from: &str, to: &str) -> String {
    format!(
        "{to}_axis = Constant <value_int = {axis}> ()
        {to} = DFT <{attributes}> ({from}, \"\", {to}_axis)",
        axis = -1 - before
    )
}

/// The Fourier transform of a real signal: of its last axis without the redundant half, then of the
/// axes before it.
fn real_transform(node: &mut Reader<'_>) -> Result<String> {
    let axes = signal_axes(node)?;
    let mut nodes = transform("onesided = 1", 1, "x_parts", "s1");
    for axis in 2..=axes {
        let [from, to] = [axis - 1, axis].map(|i| format!("s{i}"));
        nodes = format!("{nodes} {}", transform("onesided = 0", axis, &from, &to));
    }
    Ok(format!(
        "(x) => (y) {{
            last = Constant <value_ints = [-1]> ()
            x_parts = Unsqueeze (x, last) {nodes}
            y = Identity (s{axes})
        }}"
    ))
}

/// The inverse of [`real_transform`]. The size of the last axis is even.
fn inverse_real_transform(node: &mut Reader<'_>) -> Result<String> {
    let axes = signal_axes(node)?;
    let mut nodes = String::new();
    let mut from = "x".to_owned();
    for axis in (2..=axes).rev() {
        let to = format!("s{axis}");
        nodes = format!("{nodes} {}", transform("inverse = 1", axis, &from, &to));
        from = to;
    }
    let real = transform("inverse = 1, onesided = 1", 1, &from, "real");
    Ok(format!(
        "(x) => (y) {{
            {nodes} {real}
            last = Constant <value_ints = [-1]> ()
            y = Squeeze (real, last)
        }}"
    ))
}

/// ONNX's `Pad`, whose pads may be a matrix of one row, and whose value one of one element.
fn pad(node: &mut Reader<'_>) -> Result<String> {
    let attributes = in_angles(&pass_attributes(node, &[Passed::Text("mode")])?);
    let (value, arguments) = match node.has(2) {
        true => ("scalar = Squeeze (value)", "x, list, scalar"),
        false => ("", "x, list"),
    };
    Ok(format!(
        "(x, pads, value) => (y) {{
            flat = Constant <value_ints = [-1]> ()
            list = Reshape (pads, flat)
            {value}
            y = Pad {attributes} ({arguments})
        }}"
    ))
}

/// ONNX's `Range`, whose inputs may have one axis.
fn range(node: &mut Reader<'_>) -> Result<String> {
    let step = if node.has(2) { "Squeeze (delta)" } else { "CastLike (one, first)" };
    Ok(format!(
        "(start, limit, delta) => (y) {{
            first = Squeeze (start)
            end = Squeeze (limit)
            one = Constant <value_int = 1> ()
            step = {step}
            y = Range (first, end, step)
        }}"
    ))
}

/// The slices of `size` elements along `dim`, `step` apart. The elements of a slice are the last
/// axis.
fn unfold(node: &mut Reader<'_>) -> Result<String> {
    let rank = node.rank(0)?;
    let (dim, step) = (node.int("dim", -1)?, node.int("step", 1)?);
    let size = node.required_int("size")?;
    let axis = if dim < 0 { dim + rank as i64 } else { dim };
    if !(0..rank as i64).contains(&axis) {
        let message = format!("`dim` is {dim}, but the input has {}", counted(rank, "axis"));
        return Err(Diagnostic::new(Code::BadAttribute, message));
    }
    if size < 1 || step < 1 {
        let message = format!("`size` is {size} and `step` is {step}, but both must be positive");
        return Err(Diagnostic::new(Code::BadAttribute, message));
    }
    let axis = axis as usize;
    let order: Vec<usize> = (0..=axis).chain(axis + 2..=rank).chain([axis + 1]).collect();
    Ok(format!(
        "(x) => (y) {{
            zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
            size = Constant <value_int = {size}> () step = Constant <value_int = {step}> ()
            sizes = Shape (x)
            axis = Constant <value_int = {axis}> ()
            len = Gather (sizes, axis)
            over = Sub (len, size)
            steps = Div (over, step)
            count = Add (steps, one)
            numbers = Range (zero, count, one)
            starts = Mul (numbers, step)
            last = Constant <value_ints = [1]> ()
            column = Unsqueeze (starts, last)
            inside = Range (zero, size, one)
            indices = Add (column, inside)
            slices = Gather <axis = {axis}> (x, indices)
            y = Transpose <perm = {order:?}> (slices)
        }}"
    ))
}
