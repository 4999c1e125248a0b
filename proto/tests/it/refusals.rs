//! Invalid files are errors: never a panic, a stack overflow, or an allocation of a size that a
//! false length claims.

use std::thread;

use onnxc_proto::*;

use crate::sample::{Packing, Sample, Values, sized, varint};
use crate::schema::Schema;

/// The stack size of a small thread, in which 100 nested messages must be read and dropped.
const STACK: usize = 256 * 1024;

/// The fields of a model that has every field.
fn sample() -> Vec<Vec<u8>> {
    Sample::new(&Schema::read(), Values::Counted, Packing::Declared, 0).fields("ModelProto")
}

/// Checks that decoding `file` fails, with a message that contains `why`.
fn check(file: Vec<u8>, why: &str) {
    let read = decode_model(file.into()).map(drop);
    let error = read.expect_err("the file is no model").to_string();
    assert!(error.contains(why), "{error}");
}

/// The key of a field with a length.
fn key(tag: u64) -> Vec<u8> {
    varint(tag << 3 | 2)
}

/// Nested messages: each is the only field of the outer one, with these tags, outermost first.
fn nested(tags: impl DoubleEndedIterator<Item = u64>) -> Vec<u8> {
    // Built from the inside out and reversed, so that each level is appended.
    let mut reversed = Vec::new();
    for tag in tags.rev() {
        let head = [key(tag), varint(reversed.len() as u64)].concat();
        reversed.extend(head.into_iter().rev());
    }
    reversed.reverse();
    reversed
}

/// A model with `depth` graphs, each in an attribute of a node of the one before: 3 `depth` - 2
/// messages within the model.
fn graphs(depth: usize) -> Vec<u8> {
    let inner = [1, 5, 6].into_iter().cycle().take(3 * (depth - 1));
    nested([7].into_iter().chain(inner).collect::<Vec<_>>().into_iter())
}

#[test]
fn a_model_may_end_after_each_field_and_nowhere_else() {
    let fields = sample();
    let file = Bytes::from(fields.concat());
    let mut ends = vec![0];
    for field in &fields {
        ends.extend(ends.last().map(|end| end + field.len()));
    }
    for end in 0..=file.len() {
        let read = decode_model(file.slice(..end));
        assert_eq!(read.is_ok(), ends.contains(&end), "the first {end} bytes");
    }
}

#[test]
fn a_changed_byte_is_an_error_or_another_model() {
    let file = sample().concat();
    let mut refused = 0;
    for at in 0..file.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut changed = file.clone();
            changed[at] ^= change;
            let Ok(model) = decode_model(changed.into()) else {
                refused += 1;
                continue;
            };
            let written = model.encode_to_vec();
            let again = decode_model(written.clone().into()).map(|model| model.encode_to_vec());
            assert_eq!(again, Ok(written), "byte {at} changed by {change:#x}");
        }
    }
    assert!(refused > file.len() / 2, "only {refused} were refused");
}

#[test]
fn noise_is_an_error() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut refused = 0;
    for _ in 0..10_000 {
        let file: Vec<u8> = (0..8 + random() % 248).map(|_| random() as u8).collect();
        refused += usize::from(decode_model(file.into()).is_err());
    }
    assert!(refused > 9_900, "only {refused} of 10000 were refused");
}

#[test]
fn an_empty_file_is_an_empty_model() {
    assert_eq!(decode_model(Bytes::new()), Ok(ModelProto::default()));
}

#[test]
fn graphs_nest_34_deep_and_no_deeper() {
    let small = thread::Builder::new().stack_size(STACK).spawn(|| {
        assert!(decode_model(graphs(34).into()).is_ok());
        check(graphs(35), "recursion limit reached");
        check(graphs(100_000), "recursion limit reached");
    });
    small.expect("a thread starts").join().expect("the stack suffices");
}

#[test]
fn types_and_unknown_groups_nest_no_deeper_either() {
    // A sequence of sequences in an input of the graph, and the start of field 1000 as a group.
    let types = nested([7, 11, 2].into_iter().chain((0..100_000).map(|i| [4, 1][i % 2])));
    let groups = varint(1000 << 3 | 3).repeat(100_000);
    let small = thread::Builder::new().stack_size(STACK).spawn(|| {
        check(types, "recursion limit reached");
        check(groups, "recursion limit reached");
    });
    small.expect("a thread starts").join().expect("the stack suffices");
}

#[test]
fn a_length_beyond_the_end_is_an_error_before_anything_is_allocated() {
    // `raw_data`, `float_data` and `name` of an initializer, then the graph itself.
    for tag in [9, 4, 8] {
        let tensor = [key(tag), varint(1 << 40)].concat();
        let graph = [key(5), sized(&tensor)].concat();
        check([key(7), sized(&graph)].concat(), "GraphProto.initializer");
    }
    check([key(7), varint(u64::MAX)].concat(), "ModelProto.graph");
}

#[test]
fn a_field_that_leaves_its_message_is_an_error() {
    // The graph is two bytes long, its name three.
    let file = [key(7), varint(2), key(2), varint(3), b"abc".to_vec()].concat();
    check(file, "ModelProto.graph: delimited length exceeded");
}

#[test]
fn text_must_be_utf_8() {
    let file = [key(2), sized(&[0xff])].concat();
    check(file, "ModelProto.producer_name");
}

#[test]
fn a_field_of_another_wire_type_is_an_error() {
    // `ir_version` with a length, a float as an integer, a packed list that ends within a number.
    check([key(1), sized(b"14")].concat(), "ModelProto.ir_version");
    let attribute = |field: &[u8]| {
        let node = [key(5), sized(field)].concat();
        let graph = [key(1), sized(&node)].concat();
        [key(7), sized(&graph)].concat()
    };
    check(attribute(&[2 << 3, 1]), "AttributeProto.f");
    check(attribute(&[key(7), sized(&[0, 0, 0])].concat()), "AttributeProto.floats");
    check(vec![0], "invalid tag value: 0");
    check(vec![0xff; 11], "invalid varint");
}
